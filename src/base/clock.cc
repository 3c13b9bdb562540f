#include "base/clock.h"

#include <fmt/format.h>

#include <cstdio>

namespace gpuman::base {

WallTime SystemClock::Wall() const {
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

std::string FormatIso8601(WallTime time) {
  using namespace std::chrono;  // NOLINT(google-build-using-namespace)
  const auto day = floor<days>(time);
  const year_month_day date{day};
  const hh_mm_ss<milliseconds> clock{time - day};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

Result<WallTime> ParseIso8601(std::string_view text) {
  using namespace std::chrono;  // NOLINT(google-build-using-namespace)
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0, ms = 0;
  const std::string copy(text);
  const int fields = std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ", &y, &mo, &d, &h, &mi, &s, &ms);
  const year_month_day date{year(y), month(static_cast<unsigned>(mo)), day(static_cast<unsigned>(d))};
  if (fields < 6 || !date.ok() || h > 23 || mi > 59 || s > 60)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is not a time such as 2026-11-21T03:28:48Z", text));
  return WallTime(sys_days(date).time_since_epoch() + hours(h) + minutes(mi) + seconds(s) + milliseconds(ms));
}

}  // namespace gpuman::base
