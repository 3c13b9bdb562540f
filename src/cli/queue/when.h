// Times as tables show them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::cli::queue {

// Local time: "14:03", "tomorrow 08:00", "2026-12-01 08:00".
std::string FormatWhen(base::WallTime time, base::WallTime now);
// The time of an estimate that rests on jobs without a time limit, whose end is unknown: "~today",
// "~tomorrow", "~2026-12-01".
std::string FormatAbout(base::WallTime time, base::WallTime now);
// "2026-12-01 08:00:00", local time.
std::string FormatLocal(base::WallTime time);
// "08:00:00", local time.
std::string FormatTimeOfDay(base::WallTime time);
// A sentence of the daemon, which writes times in UTC as in JSON, with these times as FormatLocal has them.
std::string WithLocalTimes(std::string_view sentence);
// In the form of Slurm and gflow: "00:02:15", "1-02:00:00".
std::string FormatClock(base::Millis time);

}  // namespace gpuman::cli::queue
