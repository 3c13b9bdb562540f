// The clock that the shim measures by, in nanoseconds. The daemon reads the same clock (CLOCK_MONOTONIC).
#pragma once

#include <time.h>

#include <cstdint>

namespace gpuman::shim {

inline std::uint64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace gpuman::shim
