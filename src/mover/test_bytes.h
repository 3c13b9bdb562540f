// Bytes for tests, the same for the same seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "mover/chunk_hash.h"

namespace gpuman::mover {

using Bytes = std::vector<std::uint8_t>;

inline Bytes RandomBytes(std::uint64_t seed, std::size_t size = kChunk) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, size - i));
  }
  return bytes;
}

}  // namespace gpuman::mover
