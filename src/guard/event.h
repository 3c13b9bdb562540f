// What the guard tells: stored by the daemon, shown by `gpuman events`. Values.
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
inline constexpr std::string_view kSoftLimit = "soft_limit";            // a job passed its soft limit
inline constexpr std::string_view kHardLimit = "hard_limit";            // a job is being ended for its limit
inline constexpr std::string_view kOverLimit = "over_limit";            // … is let be, for now
inline constexpr std::string_view kDevicePressure = "device_pressure";  // … for the reserve of a GPU
inline constexpr std::string_view kPressureSuspend =
    "device_pressure_suspend";                                    // … is being suspended for it
inline constexpr std::string_view kSigkillSent = "sigkill_sent";  // after a grace, or again
inline constexpr std::string_view kPressureUnrelieved = "device_pressure_unrelieved";  // nobody to end
inline constexpr std::string_view kUsageUnknown = "usage_unknown";  // a limit cannot be held: no figures
inline constexpr std::string_view kUnmanagedWarning = "unmanaged_warning";
inline constexpr std::string_view kUnmanagedLimit = "unmanaged_limit";
inline constexpr std::string_view kGpuLost = "gpu_lost";
inline constexpr std::string_view kGpuUnresponsive = "gpu_unresponsive";
inline constexpr std::string_view kGpuBack = "gpu_back";
inline constexpr std::string_view kSignalFailed = "signal_failed";

// `data` keys: bytes are plain ("used", "limit", "soft", "free", "reserve", "total"); monotonic times end in
// "_ns" ("sampled_ns": the sampling that decided began; "signal_ns", "sigkill_ns": the signal had been sent
// to the whole tree); "signalled" counts processes.
struct Event {
  std::string kind;
  base::MonoTime at{};
  std::optional<JobId> job{};
  std::optional<std::string> gpu{};  // UUID
  std::optional<pid_t> pid{};
  std::string reason{};   // the job's `reason` word: memory_limit, device_pressure; empty: nothing ordered
  std::string message{};  // a sentence with the numbers in it; the job's `reason_detail`
  std::map<std::string, std::int64_t> data{};
  friend bool operator==(const Event&, const Event&) = default;
};

}  // namespace gpuman::guard
