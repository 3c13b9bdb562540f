// What plain, pitched and managed memory costs.
//
// The device gives memory in granules (2 MiB on an H200). Small allocations share a granule. It counts once,
// while any of them lives. So an allocation costs the granules that it touches and that no other allocation
// has touched before; its address tells which granules these are. Pure arithmetic; not thread-safe. An object
// of zeros is an empty account.
#pragma once

#include <cstdint>

#include "shim/libc/hash_table.h"

namespace gpuman::shim {

struct Allocation {
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t context;  // the allocation ends with this context
  std::uint64_t granule;
  int device;
  bool managed = false;
};

constexpr std::uint64_t RoundDown(std::uint64_t value, std::uint64_t step) { return value - value % step; }
// The largest multiple of `step` where the next multiple does not fit into 64 bits.
constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t step) {
  const std::uint64_t rest = value % step;
  if (rest == 0) return value;
  return value > UINT64_MAX - step ? RoundDown(UINT64_MAX, step) : value + (step - rest);
}

class Allocations {
 public:
  // Enters an allocation that the driver has made. `cost` is how many bytes the device gave for it. Returns
  // false, and enters nothing, when there is no memory for the entry.
  bool Add(const Allocation& allocation, std::uint64_t& cost);
  // Takes the entry of an address out. The caller does so before it asks the driver to free the address:
  // afterwards another thread may get the address. The bytes of the allocation still count. The caller then
  // calls Freed, or PutBack where the driver refused.
  bool Take(std::uint64_t address, Allocation& allocation);
  // Returns false when there is no memory for the entry any more; then the allocation counts for ever.
  bool PutBack(const Allocation& allocation);
  // Returns how many bytes the device has back.
  std::uint64_t Freed(const Allocation& allocation);

  // Takes out up to `room` allocations of a context; returns how many.
  unsigned TakeOf(std::uint64_t context, Allocation* taken, unsigned room);

  // Returns the bytes of managed memory. An allocation of a granule or more counts in whole granules.
  std::uint64_t managed() const { return managed_; }

  std::size_t size() const { return entries_.size(); }
  void Reset() {
    entries_.Reset();
    shared_.Reset();
    managed_ = 0;
  }

 private:
  struct GranuleUsers {
    std::uint64_t users;
  };
  // The bytes of granules that the allocation is the first to touch (Join) or the last to touch (Leave).
  std::uint64_t Join(const Allocation& allocation, bool& complete);
  std::uint64_t Leave(const Allocation& allocation);

  HashTable<Allocation> entries_;
  HashTable<GranuleUsers> shared_;  // granules that an allocation touches in part, by number + 1
  std::uint64_t managed_;
};

}  // namespace gpuman::shim
