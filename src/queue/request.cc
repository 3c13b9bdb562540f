#include "queue/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/words.h"

namespace gpuman::queue {
namespace {

using base::ErrorCode;
using base::Fail;

constexpr base::Words<DependencyKind, 4> kKinds{{{DependencyKind::kAfterOk, "afterok"},
                                                 {DependencyKind::kAfterNotOk, "afternotok"},
                                                 {DependencyKind::kAfterAny, "afterany"},
                                                 {DependencyKind::kAfter, "after"}}};
constexpr base::Words<DependencyMode, 2> kModes{
    {{DependencyMode::kAll, "all"}, {DependencyMode::kAny, "any"}}};
constexpr base::Words<NotifyOn, 8> kEvents{{{NotifyOn::kStarted, "started"},
                                            {NotifyOn::kFinished, "finished"},
                                            {NotifyOn::kFailed, "failed"},
                                            {NotifyOn::kTimeout, "timeout"},
                                            {NotifyOn::kCancelled, "cancelled"},
                                            {NotifyOn::kRequeued, "requeued"},
                                            {NotifyOn::kKilled, "killed"},
                                            {NotifyOn::kSuspended, "suspended"}}};

// Ten years: sums of waiting times and lengths stay far from overflow.
constexpr Millis kLongest = std::chrono::hours(24 * 366 * 10);
constexpr int kMaxCount = 1'000'000;

base::Result<> Refuse(std::string_view field, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{} {}", field, what));
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

base::Result<> CheckGpus(const Request& request) {
  const GpuRequest& gpus = request.gpus;
  GPUMAN_TRY(CheckRange("gpus.count", gpus.count, 0, 1024));
  const std::set<std::string> distinct(gpus.devices.begin(), gpus.devices.end());
  if (distinct.size() != gpus.devices.size()) return Refuse("gpus.devices", "names a GPU twice");
  if (!gpus.devices.empty() && gpus.devices.size() != static_cast<std::size_t>(gpus.count))
    return Refuse("gpus.count",
                  fmt::format("is {}, but {} devices are named", gpus.count, gpus.devices.size()));
  GPUMAN_TRY(CheckName("gpus.model", gpus.model));
  if (gpus.count > 0) {
    if (request.share && !request.memory)
      return Refuse("memory", "must be given for a job that shares its GPUs");
    if (request.memory && request.memory->count == 0) return Refuse("memory", "is zero");
    return {};
  }
  if (request.share) return Refuse("share", "needs a number of GPUs");
  if (!gpus.model.empty() || gpus.free_memory) return Refuse("gpus", "says which, but not how many");
  return {};
}

base::Result<> CheckTexts(const Request& request) {
  GPUMAN_TRY(CheckName("project", request.project));
  GPUMAN_TRY(CheckName("group.name", request.group.name));
  for (const auto* path : {&request.standard_input, &request.standard_output, &request.standard_error,
                           &request.script, &request.conda_env, &request.device_profile})
    if (path->find('\0') != std::string::npos) return Refuse("a file or script", "has a NUL byte in it");
  return {};
}

base::Result<> CheckTimes(const Request& request) {
  if (request.time_limit) {
    GPUMAN_TRY(CheckDuration("time_limit", *request.time_limit, Millis(1)));
  }
  GPUMAN_TRY(CheckDuration("warn_before", request.warn_before, Millis(0)));
  GPUMAN_TRY(CheckRange("warn_signal", request.warn_signal, 0, 64));
  GPUMAN_TRY(CheckDuration("retries.delay", request.retries.delay, Millis(0)));
  const WallTime latest(kLongest * 20);
  if (request.begin && (*request.begin < WallTime{} || *request.begin > latest))
    return Refuse("begin", "is no time that will come");
  return {};
}

base::Result<> CheckDependencies(const Dependencies& depends) {
  for (const Dependency& each : depends.list)
    if (each.job.value < 1) return Refuse("depends", fmt::format("names job {}", each.job.value));
  return {};
}

}  // namespace

base::Result<> Validate(const Request& request) {
  GPUMAN_TRY(CheckGpus(request));
  GPUMAN_TRY(CheckTimes(request));
  GPUMAN_TRY(CheckTexts(request));
  GPUMAN_TRY(CheckRange("priority", request.priority, kLowestPriority, kHighestPriority));
  GPUMAN_TRY(CheckRange("cpus", request.cpus, 0, kMaxCount));
  GPUMAN_TRY(CheckRange("group.limit", request.group.limit, 0, kMaxCount));
  if (request.group.name.empty() != (request.group.limit == 0))
    return Refuse("group", "needs a name and a limit");
  GPUMAN_TRY(CheckRange("retries.count", request.retries.count, 0, kMaxCount));
  for (const int code : request.retries.on_exit_codes)
    GPUMAN_TRY(CheckRange("retries.on_exit_codes", code, 0, 255));
  if (request.array) {
    GPUMAN_TRY(CheckRange("array.limit", request.array->limit, 0, kMaxCount));
    GPUMAN_TRY(CheckRange("array.task", request.array->task, 0, INT32_MAX));
    GPUMAN_TRY(CheckRange("array.array", request.array->array.value, 1, INT64_MAX));
  }
  return CheckDependencies(request.depends);
}

std::string_view ToString(DependencyKind kind) { return base::WordOf(kKinds, kind); }
std::string_view ToString(DependencyMode mode) { return base::WordOf(kModes, mode); }
std::string_view ToString(NotifyOn event) { return base::WordOf(kEvents, event); }
std::optional<DependencyKind> DependencyKindFromString(std::string_view word) {
  return base::ValueOf(kKinds, word);
}
std::optional<DependencyMode> DependencyModeFromString(std::string_view word) {
  return base::ValueOf(kModes, word);
}
std::optional<NotifyOn> NotifyOnFromString(std::string_view word) { return base::ValueOf(kEvents, word); }

}  // namespace gpuman::queue
