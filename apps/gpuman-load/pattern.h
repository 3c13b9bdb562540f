// The pattern that kernels.ptx writes, on the host.
#pragma once

#include <cstdint>

namespace gpuman::load {

// Word `index` of a block that was filled with `seed` and incremented `added` times.
constexpr std::uint64_t PatternWord(std::uint64_t index, std::uint64_t seed, std::uint64_t added) {
  std::uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u ^ seed;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  return (z ^ z >> 27) + added;
}

}  // namespace gpuman::load
