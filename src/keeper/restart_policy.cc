#include "keeper/restart_policy.h"

#include <algorithm>

namespace gpuman::keeper {
namespace {

// However short the policy's delays are, a command that ends at once does not fill the journal at full speed.
constexpr std::uint32_t kFreeRestarts = 5;
constexpr base::Millis kFloor{100};

base::Millis DelayBefore(const RestartPolicy& policy, std::uint32_t number_in_a_row) {
  base::Millis delay = policy.initial_delay;
  for (std::uint32_t i = 1; i < number_in_a_row && delay < policy.max_delay && delay.count() > 0; ++i)
    delay = delay > policy.max_delay / 2 ? policy.max_delay : delay * 2;
  delay = std::min(delay, policy.max_delay);
  return number_in_a_row > kFreeRestarts ? std::max(delay, kFloor) : delay;
}

}  // namespace

RestartDecision DecideRestart(const RestartPolicy& policy, std::uint32_t in_a_row,
                              const RunOutcome& outcome) {
  const bool wanted =
      policy.mode == RestartMode::kAlways || (policy.mode == RestartMode::kOnFailure && !outcome.success);
  if (!wanted) return {RestartVerdict::kNotWanted, base::Millis{0}, 0};
  const std::uint32_t before = outcome.lasted >= policy.reset_after ? 0 : in_a_row;
  if (policy.max_restarts && before >= *policy.max_restarts)
    return {RestartVerdict::kExhausted, base::Millis{0}, before};
  return {RestartVerdict::kRestart, DelayBefore(policy, before + 1), before + 1};
}

}  // namespace gpuman::keeper
