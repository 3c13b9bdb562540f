#include "keeper/checks.h"

namespace gpuman::keeper {

base::Result<> CheckPolicy(const RestartPolicy& policy) {
  GPUMAN_TRY(CheckTime(policy.initial_delay, "the first restart delay"));
  GPUMAN_TRY(CheckTime(policy.max_delay, "the longest restart delay"));
  return CheckTime(policy.reset_after, "the time after which restarts count anew");
}

base::Result<> CheckRotations(std::uint32_t rotations) {
  if (rotations <= 1000) return {};
  return base::Fail(base::ErrorCode::kInvalidArgument, "at most 1000 older log files can be kept");
}

base::Result<> CheckTime(base::Millis time, std::string_view what) {
  constexpr auto kLongest = std::chrono::hours(24 * 366 * 10);  // additions to a clock stay far from overflow
  if (time.count() >= 0 && time <= kLongest) return {};
  return base::Fail(base::ErrorCode::kInvalidArgument,
                    std::string(what) + " must lie between 0 and ten years");
}

}  // namespace gpuman::keeper
