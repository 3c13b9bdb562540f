// Waiting for memory that somebody else is to write.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace gpuman::sim::cuda {

// Sleeps before the next poll, after `polls` in vain: the more polls, the longer, so that a long wait costs
// no processor and a short one little time. At least `asked_ns`; a millisecond at most.
inline void PauseBeforeNextPoll(std::uint64_t asked_ns, unsigned polls) {
  constexpr std::uint64_t kFirstNs = 20'000, kGrowthNs = 600, kLongestNs = 1'000'000;
  const std::uint64_t grown = kFirstNs + kGrowthNs * polls * polls;
  const timespec pause{0, static_cast<long>(std::min(std::max(asked_ns, grown), kLongestNs))};
  nanosleep(&pause, nullptr);
}

}  // namespace gpuman::sim::cuda
