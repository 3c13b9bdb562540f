#include "cli/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "api/queue_json.h"
#include "base/parse_number.h"
#include "base/text.h"
#include "cli/local_time.h"
#include "spec/option_rules.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;

constexpr std::size_t kMaxRefs = 100'000;

tl::unexpected<base::Error> Bad(std::string_view text, std::string_view what, std::string_view write) {
  return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' {}", text, what),
                    fmt::format("write {}", write));
}

// The number may begin with a '+'.
template <typename T>
std::optional<T> NumberWithSign(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return base::ParseNumber<T>(plus ? text.substr(1) : text);
}

struct Ends {
  int first = 0;
  int last = 0;
};
// "5" and "5-9" of numbers that are not negative.
std::optional<Ends> ReadRange(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = base::ParseNumber<int>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : base::ParseNumber<int>(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < 0) return std::nullopt;
  return Ends{*first, *last};
}

// Converts local civil time to an instant. mktime moves a time that the clocks skip one hour later. A time
// that occurs twice, when the clocks go back, means the first one, in summer time. It does not use the system
// clock's nanoseconds, which end in the year 2262.
base::WallTime FromLocal(std::tm local) {
  std::tm summer = local;
  summer.tm_isdst = 1;
  const std::time_t first = std::mktime(&summer);
  local.tm_isdst = -1;
  const std::time_t either = std::mktime(&local);
  const bool same = summer.tm_isdst > 0 && summer.tm_hour == local.tm_hour && summer.tm_min == local.tm_min &&
                    summer.tm_mday == local.tm_mday;
  return base::WallTime(std::chrono::seconds(same ? first : either));
}
base::WallTime Midnight(base::WallTime now, int days) {
  std::tm local = LocalTime(now);
  local.tm_mday += days;
  local.tm_hour = local.tm_min = local.tm_sec = 0;
  return FromLocal(local);
}

// Reads "22:00" or "22:00:30" into the fields of `local`.
bool ReadClock(std::string_view text, std::tm& local) {
  std::vector<int> parts;
  while (true) {
    const auto colon = text.find(':');
    const auto part = text.substr(0, colon);
    const auto value = base::ParseNumber<int>(part);
    if (!value || part.size() > 2 || *value < 0) return false;
    parts.push_back(*value);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  if (parts.size() < 2 || parts.size() > 3 || parts[0] > 23 || parts[1] > 59 ||
      (parts.size() == 3 && parts[2] > 59))
    return false;
  local.tm_hour = parts[0];
  local.tm_min = parts[1];
  local.tm_sec = parts.size() == 3 ? parts[2] : 0;
  return true;
}

struct Zoned {
  std::string_view time;
  std::chrono::minutes ahead;  // of UTC
};
// Reads a date and time that ends with "Z" or "+02:00".
std::optional<Zoned> ReadZone(std::string_view text) {
  constexpr std::size_t kDate = 10, kOffset = 6;
  if (text.size() > kDate && text.ends_with('Z')) return Zoned{text.substr(0, text.size() - 1), {}};
  if (text.size() <= kDate + kOffset) return std::nullopt;
  const auto offset = text.substr(text.size() - kOffset);
  std::tm clock{};
  if ((offset[0] != '+' && offset[0] != '-') || !ReadClock(offset.substr(1), clock)) return std::nullopt;
  const std::chrono::minutes ahead(clock.tm_hour * 60 + clock.tm_min);
  return Zoned{text.substr(0, text.size() - kOffset), offset[0] == '-' ? -ahead : ahead};
}

bool ReadDate(std::string_view text, std::tm& local) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  const auto year = base::ParseNumber<int>(text.substr(0, 4));
  const auto month = base::ParseNumber<int>(text.substr(5, 2));
  const auto day = base::ParseNumber<int>(text.substr(8, 2));
  if (!year || !month || !day) return false;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(unsigned(*month)),
                                         std::chrono::day(unsigned(*day))};
  if (*month < 1 || *day < 1 || !date.ok()) return false;
  local = {};
  local.tm_year = *year - 1900;
  local.tm_mon = *month - 1;
  local.tm_mday = *day;
  return true;
}

base::Result<base::Millis> ReadOffset(std::string_view text) {
  if (const auto minutes = base::ParseNumber<std::int64_t>(text);
      minutes && *minutes >= 0 && *minutes < 500'000'000)
    return base::Millis(std::chrono::minutes(*minutes));
  return base::ParseDuration(text);
}

}  // namespace

base::Result<std::vector<std::string>> SplitList(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(separator, at), text.size());
    if (end == at)
      return base::Fail(ErrorCode::kInvalidArgument,
                        fmt::format("'{}' has an empty part between its '{}'", text, separator));
    parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

template <typename T>
base::Result<T> ParseInteger(std::string_view text, T least, T most) {
  const auto value = NumberWithSign<T>(text);
  if (!value && text.find_first_not_of("+-0123456789") != text.npos)
    return Bad(text, "is not a number", fmt::format("{} to {}", least, most));
  if (!value || *value < least || *value > most)
    return Bad(text, "is not a number in the possible range", fmt::format("{} to {}", least, most));
  return *value;
}
template base::Result<int> ParseInteger(std::string_view text, int least, int most);
template base::Result<std::int64_t> ParseInteger(std::string_view text, std::int64_t least,
                                                 std::int64_t most);

base::Result<std::string> ParseName(std::string_view text) {
  if (text.starts_with('-'))
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' begins with '-', as options do", text),
                      "a name is such as train-7");
  return std::string(text);
}

base::Result<double> ParseWeight(std::string_view text) {
  const auto weight = NumberWithSign<double>(text);
  if (!weight || !(*weight >= spec::kLowestWeight && *weight <= spec::kHighestWeight))
    return Bad(text, "is not a weight",
               fmt::format("a number from {} to {}", spec::kLowestWeight, spec::kHighestWeight));
  return *weight;
}

base::Result<spec::RestartMode> ParseRestartMode(std::string_view text) {
  const auto mode = base::ValueOf(WordsOf(spec::RestartMode{}), text);
  if (!mode) return Bad(text, "is not a restart mode", "no, on-failure or always");
  return *mode;
}

base::Result<double> ParsePercentage(std::string_view text) {
  const auto percent = NumberWithSign<double>(text.ends_with('%') ? text.substr(0, text.size() - 1) : text);
  if (!percent || !(*percent >= 1 && *percent <= 100))
    return Bad(text, "is not a percentage from 1% to 100%", "25% or 12.5%");
  return *percent;
}

base::Result<std::vector<int>> ParseExitCodes(std::string_view text) {
  GPUMAN_ASSIGN(const auto parts, SplitList(text));
  std::vector<int> codes;
  for (const auto& part : parts) {
    GPUMAN_ASSIGN(const int code, ParseInteger(part, spec::kLowestExitCode, spec::kHighestExitCode));
    codes.push_back(code);
  }
  return codes;
}

base::Result<GpuCount> ParseGpuCount(std::string_view text) {
  constexpr std::string_view kWrite =
      "how many, such as 2; gpu:2 and gpu:h100:2 mean what they mean in Slurm";
  std::string_view rest = text;
  if (rest == "gpu") return GpuCount{1, std::nullopt};
  const bool resource = rest.starts_with("gpu:");
  if (resource) rest.remove_prefix(std::string_view("gpu:").size());
  GpuCount gpus;
  const auto colon = rest.rfind(':');
  if (colon != std::string_view::npos) gpus.model = std::string(rest.substr(0, colon));
  const auto last = colon == std::string_view::npos ? rest : rest.substr(colon + 1);
  const auto count = base::ParseNumber<int>(last);
  const bool is_model = resource && !rest.empty() && colon == std::string_view::npos;
  if (!count && is_model) return GpuCount{1, std::string(rest)};  // "gpu:h100"
  if (!count || *count < 0 || *count > spec::kMaxGpusOfJob || (gpus.model && gpus.model->empty()))
    return Bad(text, "is not a number of GPUs", kWrite);
  gpus.count = *count;
  return gpus;
}

base::Result<api::ArrayRequest> ParseArray(std::string_view text) {
  constexpr std::string_view kWrite =
      "indices such as 0-99, 0-99:2 or 1,3,5-9, with %4 behind for four at once";
  api::ArrayRequest array;
  std::string_view rest = text;
  if (const auto percent = rest.find('%'); percent != std::string_view::npos) {
    const auto limit = base::ParseNumber<int>(rest.substr(percent + 1));
    if (!limit || *limit < 1) return Bad(text, "has no number of at least 1 behind its %", kWrite);
    array.limit = *limit;
    rest = rest.substr(0, percent);
  }
  GPUMAN_ASSIGN(const auto parts, SplitList(rest));
  for (const auto& part : parts) {
    const auto colon = part.find(':');
    const auto ends = ReadRange(std::string_view(part).substr(0, colon));
    const auto step = colon == std::string::npos
                          ? std::optional(1)
                          : base::ParseNumber<int>(std::string_view(part).substr(colon + 1));
    if (!ends) return Bad(part, "is not an index or a range of them", kWrite);
    if (!step || *step < 1) return Bad(part, "has no step of at least 1 behind its colon", kWrite);
    if (ends->last < ends->first) return Bad(part, "runs backwards", kWrite);
    array.indices.push_back({ends->first, ends->last, *step});
  }
  std::sort(array.indices.begin(), array.indices.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < array.indices.size(); ++i)
    if (array.indices[i].first <= array.indices[i - 1].last)
      return Bad(text, fmt::format("has {} twice, or ranges that overlap", array.indices[i].first), kWrite);
  if (api::CountTasks(array) > api::kMaxArrayTasks)
    return Bad(text, fmt::format("is {} tasks", api::CountTasks(array)),
               fmt::format("at most {} of them", api::kMaxArrayTasks));
  return array;
}

base::Result<spec::NamedDependencies> ParseDependencies(std::string_view text, spec::DependencyKind kind) {
  constexpr std::string_view kWrite =
      "jobs such as 7, train or @, or afterok:7:8,afterany:prep; ? for , means any";
  spec::NamedDependencies depends;
  const bool any = text.find('?') != std::string_view::npos;
  if (any && text.find(',') != std::string_view::npos)
    return Bad(text, "has both , (all of them) and ? (any of them)", kWrite);
  depends.mode = any ? spec::DependencyMode::kAny : spec::DependencyMode::kAll;
  GPUMAN_ASSIGN(const auto parts, SplitList(text, any ? '?' : ','));
  for (const auto& part : parts) {
    GPUMAN_ASSIGN(const auto words, SplitList(part, ':'));
    const auto named = spec::DependencyKindFromString(words.front());
    if (words.size() > 1 && !named && words.front().starts_with("after"))
      return Bad(words.front(), "is not a kind of dependency", "afterok, afterany, afternotok or after");
    if (named && words.size() == 1) return Bad(part, "names no job", kWrite);
    if (named) {
      for (std::size_t i = 1; i < words.size(); ++i) depends.list.push_back({*named, words[i]});
    } else {
      depends.list.push_back({kind, part});  // a tag may contain a colon
    }
  }
  return depends;
}

base::Result<base::WallTime> ParseTimeIn(const std::string& zone, std::string_view text, base::WallTime now) {
  const char* const set = std::getenv("TZDIR");
  const std::filesystem::path zones = set ? set : "/usr/share/zoneinfo";
  std::error_code ignored;
  if (zone.empty() || zone.front() == '/' || zone.find("..") != std::string::npos ||
      !std::filesystem::is_regular_file(zones / zone, ignored))
    return Bad(zone, "is not a time zone that this machine knows", "one as in Europe/Berlin or UTC");
  const char* const old = std::getenv("TZ");
  const std::optional<std::string> before = old ? std::optional<std::string>(old) : std::nullopt;
  ::setenv("TZ", (":" + zone).c_str(), 1);
  ::tzset();
  auto time = ParseTime(text, now);
  if (before)
    ::setenv("TZ", before->c_str(), 1);
  else
    ::unsetenv("TZ");
  ::tzset();
  return time;
}

base::Result<base::WallTime> ParseTime(std::string_view text, base::WallTime now) {
  constexpr std::string_view kWrite = "22:00, 2026-02-01T08:00, 2026-02-01, now+2h or tomorrow";
  if (text == "now") return now;
  if (text == "midnight" || text == "tomorrow") return Midnight(now, 1);
  if (text.starts_with("now+")) {
    const auto offset = ReadOffset(text.substr(4));
    if (!offset) return Bad(text, "has no time behind now+", kWrite);
    return now + *offset;
  }
  if (const auto zoned = ReadZone(text)) {
    std::string whole(zoned->time);
    if (whole[10] == ' ') whole[10] = 'T';
    if (whole.size() == 16) whole += ":00";
    if (whole.size() == 19) whole += ".000";
    const auto time = base::ParseIso8601(whole + "Z");
    if (!time) return Bad(text, "is not a time", kWrite);
    return *time - zoned->ahead;
  }
  std::tm local = LocalTime(now);
  const bool noon = text == "noon";
  if (ReadClock(noon ? "12:00" : text, local)) {
    const auto today = FromLocal(local);
    if (today > now) return today;
    ++local.tm_mday;
    return FromLocal(local);
  }
  if (!ReadDate(text.substr(0, 10), local)) return Bad(text, "is not a time", kWrite);
  if (text.size() == 10) return FromLocal(local);
  if ((text[10] != 'T' && text[10] != ' ') || !ReadClock(text.substr(11), local))
    return Bad(text, "is not a time", kWrite);
  return FromLocal(local);
}

base::Result<base::WallTime> ParseSince(std::string_view text, base::WallTime now) {
  if (text == "today") return Midnight(now, 0);
  if (text == "yesterday") return Midnight(now, -1);
  if (text.ends_with('w')) {
    if (const auto weeks = base::ParseNumber<int>(text.substr(0, text.size() - 1));
        weeks && *weeks > 0 && *weeks < 5000)
      return now - std::chrono::hours(24 * 7) * *weeks;
  }
  if (const auto back = base::ParseDuration(text); back && text.find(':') == std::string_view::npos)
    return now - *back;
  auto time = ParseTime(text, now);
  if (!time) return Bad(text, "is not a time", "1h, 2d, 3w, today, yesterday or 2026-02-01T08:00");
  return time;
}

base::Result<base::Millis> ParseMinutes(std::string_view text) {
  constexpr std::string_view kWrite = "minutes, M:S, H:M:S or D-H:M:S, or a number with s, m, h or d";
  if (const auto minutes = base::ParseNumber<std::int64_t>(text)) {
    if (*minutes < 0 || *minutes > 500'000'000) return Bad(text, "is not a time", kWrite);
    return base::Millis(std::chrono::minutes(*minutes));
  }
  base::Millis days{};
  if (const auto dash = text.find('-'); dash != std::string_view::npos && dash > 0) {
    const auto count = base::ParseNumber<int>(text.substr(0, dash));
    if (!count || *count < 0 || *count > 100'000) return Bad(text, "is not a time", kWrite);
    days = std::chrono::hours(24) * *count;
    text.remove_prefix(dash + 1);
    if (const auto whole = base::ParseNumber<int>(text); whole && *whole >= 0 && *whole < 24)
      return days + std::chrono::hours(*whole);
  }
  const auto rest = base::ParseDuration(text);
  if (!rest) return Bad(text, "is not a time", kWrite);
  return days + *rest;
}

base::Result<base::Bytes> ParseMebibytes(std::string_view text) {
  if (const auto mebibytes = base::ParseNumber<std::uint64_t>(text);
      mebibytes && *mebibytes < (std::uint64_t{1} << 42)) {
    if (*mebibytes == 0) return base::ParseBytes(text);
    return base::MiB(*mebibytes);
  }
  return base::ParseBytes(text);
}

base::Result<WarningSignal> ParseWarning(std::string_view text) {
  constexpr std::string_view kWrite = "a time before the end, such as 60s, or with a signal: USR1@60s";
  WarningSignal warning{{SIGUSR1}, {}};
  const auto at = text.find('@');
  if (at != std::string_view::npos) {
    const auto signal = spec::SignalOf(text.substr(0, at));
    if (!signal) return Bad(text.substr(0, at), "is not a signal that a program can be warned with", kWrite);
    warning.signal = *signal;
  }
  const auto before = base::ParseDuration(at == std::string_view::npos ? text : text.substr(at + 1));
  if (!before) return Bad(text, "has no time", kWrite);
  warning.before = *before;
  return warning;
}

base::Result<std::vector<spec::NotifyOn>> ParseNotifyOn(std::string_view text) {
  constexpr auto kWords = WordsOf(spec::NotifyOn{});
  GPUMAN_ASSIGN(const auto parts, SplitList(text));
  std::vector<spec::NotifyOn> on;
  for (const auto& part : parts) {
    std::string_view word = part;
    if (word.starts_with("job_")) word.remove_prefix(4);
    if (word == "completed") word = "finished";
    const auto event = base::ValueOf(kWords, word);
    if (!event) {
      std::vector<std::string_view> known;
      for (const auto& [value, name] : kWords) known.push_back(name);
      return base::Fail(base::ErrorCode::kInvalidArgument,
                        fmt::format("'{}' is none of {}", word, fmt::join(known, ", ")));
    }
    on.push_back(*event);
  }
  return on;
}

base::Result<std::vector<std::string>> ParseJobs(std::string_view text) {
  GPUMAN_ASSIGN(const auto parts, SplitList(text));
  std::vector<std::string> jobs;
  for (const auto& part : parts) {
    const auto ends = part.find('-') == std::string::npos ? std::nullopt : ReadRange(part);
    if (!ends) {
      jobs.push_back(part);
      continue;
    }
    if (ends->last < ends->first)
      return Bad(part, "is not a range of ids", "ids in rising order, such as 5-7");
    if (jobs.size() + std::size_t(ends->last - ends->first) >= kMaxRefs)
      return Bad(part, fmt::format("names more than {} jobs", kMaxRefs), "fewer at once");
    for (int id = ends->first; id <= ends->last; ++id) jobs.push_back(std::to_string(id));
  }
  return jobs;
}

namespace {

// "0:1": MIG device 1 of GPU 0.
bool IsInstanceNumber(std::string_view text) {
  const auto colon = text.find(':');
  const auto is_number = [](std::string_view part) { return part.size() < 5 && base::AreDigits(part); };
  return colon != std::string_view::npos && is_number(text.substr(0, colon)) &&
         is_number(text.substr(colon + 1));
}

}  // namespace

base::Result<std::vector<std::string>> ParseGpus(std::string_view text) {
  GPUMAN_ASSIGN(const auto parts, SplitList(text));
  std::vector<std::string> gpus;
  for (const auto& part : parts) {
    if (part.starts_with("GPU-") || part.starts_with("MIG-") || IsInstanceNumber(part)) {
      gpus.push_back(part);
      continue;
    }
    const auto ends = ReadRange(part);
    if (!ends || ends->last < ends->first || ends->last > 1023)
      return Bad(part, "is no GPU", "indices such as 0,2 or 0-3, instances such as 0:1, or UUIDs");
    for (int index = ends->first; index <= ends->last; ++index) gpus.push_back(std::to_string(index));
  }
  return gpus;
}

}  // namespace gpuman::cli
