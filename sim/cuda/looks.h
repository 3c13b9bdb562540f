// Waiting for memory that somebody else is to write.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>

namespace gpuman::sim::cuda {

// Sleeps before the next look, after so many in vain: the longer the wait, the longer, so that a long wait
// costs no processor and a short one little time. At least `asked_ns`; a millisecond at most.
inline void LookAgainLater(std::uint64_t asked_ns, unsigned looks) {
  constexpr std::uint64_t kFirstNs = 20'000, kGrowthNs = 600, kLongestNs = 1'000'000;
  const std::uint64_t grown = kFirstNs + kGrowthNs * looks * looks;
  const timespec pause{0, static_cast<long>(std::min(std::max(asked_ns, grown), kLongestNs))};
  nanosleep(&pause, nullptr);
}

}  // namespace gpuman::sim::cuda
