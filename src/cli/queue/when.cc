#include "cli/queue/when.h"
#include "cli/local_time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace gpuman::cli::queue {
namespace {

bool SameDay(const std::tm& a, const std::tm& b) { return a.tm_year == b.tm_year && a.tm_yday == b.tm_yday; }

}  // namespace

std::string FormatWhen(base::WallTime time, base::WallTime now) {
  const std::tm then = LocalTime(time);
  if (SameDay(then, LocalTime(now))) return fmt::format("{:%H:%M}", then);
  if (SameDay(then, LocalTime(now + std::chrono::hours(24)))) return fmt::format("tomorrow {:%H:%M}", then);
  return fmt::format("{:%Y-%m-%d %H:%M}", then);
}

std::string FormatAbout(base::WallTime time, base::WallTime now) {
  const std::tm then = LocalTime(time);
  if (SameDay(then, LocalTime(now))) return "~today";
  if (SameDay(then, LocalTime(now + std::chrono::hours(24)))) return "~tomorrow";
  return fmt::format("~{:%Y-%m-%d}", then);
}

std::string FormatLocal(base::WallTime time) { return fmt::format("{:%Y-%m-%d %H:%M:%S}", LocalTime(time)); }

std::string FormatTimeOfDay(base::WallTime time) { return fmt::format("{:%H:%M:%S}", LocalTime(time)); }

std::string WithLocalTimes(std::string_view sentence) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";  // of base::FormatIso8601
  std::string text;
  for (std::size_t end = 0; (end = sentence.find('Z')) != std::string_view::npos;) {
    const auto begin = end + 1 < kForm.size() ? end + 1 : end + 1 - kForm.size();
    const auto time = base::ParseIso8601(sentence.substr(begin, end + 1 - begin));
    text += sentence.substr(0, time ? begin : end + 1);
    if (time) text += FormatLocal(*time);
    sentence.remove_prefix(end + 1);
  }
  return text.append(sentence);
}

std::string FormatClock(base::Millis time) {
  const auto seconds = std::max<std::int64_t>(0, std::chrono::floor<std::chrono::seconds>(time).count());
  const auto clock = fmt::format("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
  return seconds < 86'400 ? clock : fmt::format("{}-{}", seconds / 86'400, clock);
}

}  // namespace gpuman::cli::queue
