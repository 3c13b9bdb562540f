// The events of the guard: the daemon stores them, `gpuman events` shows them. Values.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"

namespace gpuman::guard {

using base::JobId;

// `kind` is one of these words; scripts match on them.
inline constexpr std::string_view kSoftLimit = "soft_limit";  // a job passed its soft limit
inline constexpr std::string_view kHardLimit = "hard_limit";  // a job is being ended for its limit
inline constexpr std::string_view kOverLimit = "over_limit";  // a job is over its limit, but may stay for now
inline constexpr std::string_view kDevicePressure = "device_pressure";  // a job is ended for a GPU's reserve
inline constexpr std::string_view kPressureSuspend =
    "device_pressure_suspend";                                    // a job is suspended for a GPU's reserve
inline constexpr std::string_view kSigkillSent = "sigkill_sent";  // after a grace, or again
inline constexpr std::string_view kPressureUnrelieved = "device_pressure_unrelieved";  // nothing may be ended
inline constexpr std::string_view kUsageUnknown = "usage_unknown";  // a limit cannot be held: no figures
inline constexpr std::string_view kUnmanagedWarning = "unmanaged_warning";
inline constexpr std::string_view kUnmanagedLimit = "unmanaged_limit";
inline constexpr std::string_view kGpuLost = "gpu_lost";
inline constexpr std::string_view kGpuUnresponsive = "gpu_unresponsive";
inline constexpr std::string_view kGpuBack = "gpu_back";
inline constexpr std::string_view kSignalFailed = "signal_failed";

// Keys of `data`: plain names are bytes ("used", "limit", "soft", "free", "reserve", "total"). Names ending
// in "_ns" are monotonic times ("sampled_ns": the deciding sample began; "signal_ns", "sigkill_ns": the
// signal had been sent to the whole tree). "signalled" counts processes.
struct Event {
  std::string kind;
  base::MonoTime at{};
  std::optional<JobId> job{};
  std::optional<std::string> gpu{};  // UUID
  std::optional<pid_t> pid{};
  std::string reason{};   // the job's `reason` word: memory_limit, device_pressure; empty: no order
  std::string message{};  // a sentence with the numbers; the job's `reason_detail`
  std::map<std::string, std::int64_t> data{};
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace gpuman::guard
