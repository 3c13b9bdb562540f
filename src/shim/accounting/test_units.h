// Sizes and an address that the tests of this folder share.
#pragma once

#include <cstdint>

namespace gpuman::shim {

inline constexpr std::uint64_t kMiB = 1 << 20;
inline constexpr std::uint64_t kGranule = 2 * kMiB;           // of the driver's physical memory
inline constexpr std::uint64_t kAt = std::uint64_t{1} << 40;  // an address of device memory

}  // namespace gpuman::shim
