// The messages of the daemon and the codec name the fields of the API; a user who typed options needs the
// names of the options. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

// Turns "time_limit_s: it is zero" into "--time: it is zero", also behind the place of a change ("queue.").
base::Error WithOptionNames(base::Error error, const CommandDialect& dialect);
// The same for the fields of a reservation.
base::Error WithReservationOptions(base::Error error);

// Turns "jobs[2].memory: …" into "list.txt:7: --memory: …", where `origins` has the source of the jobs, and
// "memory: …" into "job.sh:3: --memory: …", where `lines` has the line of the option.
base::Error WithOrigins(base::Error error, const std::vector<std::string>& origins,
                        const CommandDialect& dialect, const OptionLines& lines = {});

}  // namespace gpuman::cli::queue
