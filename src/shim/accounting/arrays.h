// What arrays and mipmapped arrays cost. They have no addresses, so their bytes are computed from their
// shape. Small arrays share granules; these count by the sum of the arrays' bytes. Pure; not thread-safe.
#pragma once

#include <cstdint>

#include "driver/abi/cuda_types.h"
#include "shim/accounting/allocations.h"
#include "shim/libc/hash_table.h"

namespace gpuman::shim {

inline constexpr int kMaxDevices = 64;

// Returns the bytes of an array of this shape, rows padded as the driver pads them; 0: no driver takes it.
std::uint64_t ArrayBytes(const driver::abi::CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels);

struct ArrayEntry {
  std::uint64_t bytes;
  std::uint64_t context;
  std::uint64_t granule;
  int device;
};

class Arrays {
 public:
  // Up to this size arrays share granules.
  static constexpr std::uint64_t kLargestSmall = std::uint64_t{1} << 20;

  // Enters an array that the driver has made; `cost` is how many bytes the device gave for it. Returns false,
  // and enters nothing, when there is no memory for the entry.
  bool Add(std::uint64_t handle, const ArrayEntry& array, std::uint64_t& cost);
  bool Take(std::uint64_t handle, ArrayEntry& array) { return entries_.Take(handle, array); }
  void PutBack(std::uint64_t handle, const ArrayEntry& array);
  std::uint64_t Freed(const ArrayEntry& array);
  // Takes out one array of a context. Returns false when there is none.
  bool TakeOneOf(std::uint64_t context, ArrayEntry& array);
  void Reset() { entries_.Reset(); }

 private:
  HashTable<ArrayEntry> entries_;
  std::uint64_t small_[kMaxDevices] = {};  // bytes of small arrays on each device
};

}  // namespace gpuman::shim
