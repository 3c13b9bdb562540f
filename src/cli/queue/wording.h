// The daemon's and the codec's words for what was submitted are those of the API; who typed options is told
// of those. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

// "time_limit_s: it is zero" as "--time: it is zero".
base::Error WithOptionNames(base::Error error, Flavour flavour);

// "jobs[2].memory: …" as "list.txt:7: --memory: …", where `origins` has what the jobs came from, and
// "memory: …" as "job.sh:3: --memory: …", where `lines` has where the option stood.
base::Error WithOrigins(base::Error error, const std::vector<std::string>& origins, Flavour flavour,
                        const OptionLines& lines = {});

}  // namespace gpuman::cli::queue
