#include "spec/job_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace gpuman::spec {
namespace {

using base::ErrorCode;
using base::Fail;

// Ten years: sums of waiting times and lengths stay far from overflow.
constexpr Millis kLongest = std::chrono::hours(24 * 366 * 10);
constexpr int kMaxCount = 1'000'000;

base::Result<> Refuse(std::string_view field, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: it {}", field, what));
}

base::Result<> CheckRange(std::string_view field, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return Refuse(field, fmt::format("is {}; it must be from {} to {}", value, least, most));
}

base::Result<> CheckDuration(std::string_view field, Millis value, Millis least) {
  if (value >= least && value <= kLongest) return {};
  return Refuse(field, fmt::format("must be from {} to {}", base::FormatDuration(least),
                                   base::FormatDuration(kLongest)));
}

base::Result<> CheckName(std::string_view field, std::string_view name) {
  if (name.size() > 255) return Refuse(field, "is longer than 255 bytes");
  const bool printable =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
  if (!printable) return Refuse(field, "has control characters in it");
  return {};
}

base::Result<> CheckGpus(const GpuRequest& gpus) {
  GPUMAN_TRY(CheckRange("gpus.count", gpus.count, 0, 1024));
  const std::set<std::string> distinct(gpus.devices.begin(), gpus.devices.end());
  if (distinct.size() != gpus.devices.size()) return Refuse("gpus.devices", "names a GPU twice");
  if (!gpus.devices.empty() && gpus.devices.size() != static_cast<std::size_t>(gpus.count))
    return Refuse("gpus.count",
                  fmt::format("is {}, but {} devices are named", gpus.count, gpus.devices.size()));
  return CheckName("gpus.model", gpus.model.value_or(""));
}

base::Result<> CheckTexts(const JobSpec& spec) {
  GPUMAN_TRY(CheckName("project", spec.project.value_or("")));
  GPUMAN_TRY(CheckName("group", spec.group.name));
  bool nul = false;
  ForEachText(spec, [&](const std::string& text) { nul = nul || text.find('\0') != std::string::npos; });
  if (nul)
    return Fail(ErrorCode::kInvalidArgument, "the name of a file, or another name, has a NUL byte in it");
  if (spec.script.find('\0') != std::string::npos) return Refuse("script", "has a NUL byte in it");
  return {};
}

base::Result<> CheckTimes(const JobSpec& spec) {
  if (spec.time_limit) {
    GPUMAN_TRY(CheckDuration("time_limit_s", *spec.time_limit, Millis(1)));
  }
  GPUMAN_TRY(CheckDuration("warn_before_s", spec.warn_before, Millis(0)));
  GPUMAN_TRY(CheckRange("warn_signal", spec.warn_signal, 0, 64));
  GPUMAN_TRY(CheckDuration("retries.delay_s", spec.retries.delay, Millis(0)));
  const WallTime latest(kLongest * 20);
  if (spec.begin && (*spec.begin < WallTime{} || *spec.begin > latest))
    return Refuse("begin", "is no time that will come");
  return {};
}

base::Result<> CheckDependencies(const Dependencies& depends) {
  for (const Dependency& each : depends.list)
    if (each.job.value < 1) return Refuse("depends", fmt::format("names job {}", each.job.value));
  return {};
}

}  // namespace

base::Result<> Validate(const JobSpec& spec) {
  GPUMAN_TRY(CheckGpus(spec.gpus));
  if (spec.memory_on_each && spec.memory_on_each->count == 0) return Refuse("memory", "is zero");
  GPUMAN_TRY(CheckTimes(spec));
  GPUMAN_TRY(CheckTexts(spec));
  GPUMAN_TRY(CheckRange("priority", spec.priority, kLowestPriority, kHighestPriority));
  GPUMAN_TRY(CheckRange("cpus", spec.cpus.value_or(0), 0, kMaxCount));
  GPUMAN_TRY(CheckRange("max_concurrent", spec.group.limit, 0, kMaxCount));
  if (spec.group.name.empty() != (spec.group.limit == 0)) return Refuse("group", "needs a name and a limit");
  GPUMAN_TRY(CheckRange("retries.count", spec.retries.count, 0, kMaxCount));
  for (const int code : spec.retries.on_exit_codes)
    GPUMAN_TRY(CheckRange("retries.on_exit_codes", code, 0, 255));
  return CheckDependencies(spec.depends);
}

base::Result<> ValidateForQueue(const JobSpec& spec) {
  GPUMAN_TRY(Validate(spec));
  const GpuRequest& gpus = spec.gpus;
  if (gpus.count > 0) {
    if (spec.share && !spec.memory) return Refuse("memory", "must be given for a job that shares its GPUs");
    return {};
  }
  if (spec.share) return Refuse("share", "needs a number of GPUs");
  if (gpus.model || gpus.free_memory)
    return Refuse("gpus.count", "must be given with a model or with free memory");
  return {};
}

std::string_view ToString(RestartMode mode) { return base::WordOf(WordsOf(mode), mode); }
std::string_view ToString(DependencyKind kind) { return base::WordOf(WordsOf(kind), kind); }
std::string_view ToString(DependencyMode mode) { return base::WordOf(WordsOf(mode), mode); }
std::string_view ToString(NotifyOn event) { return base::WordOf(WordsOf(event), event); }
std::optional<DependencyKind> DependencyKindFromString(std::string_view word) {
  return base::ValueOf(WordsOf(DependencyKind{}), word);
}

}  // namespace gpuman::spec
