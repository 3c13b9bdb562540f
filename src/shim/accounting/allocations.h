// What memory at device addresses costs: plain, pitched and managed.
//
// The device gives memory in granules (2 MiB on an H200). Small allocations share one; it is counted once,
// while any of them lives. So an allocation costs the granules that it touches and no other one did: which
// these are is known from its address. Pure arithmetic; not thread-safe. All zeros is an empty account.
#pragma once

#include <cstdint>

#include "shim/accounting/table.h"

namespace gpuman::shim {

struct Allocation {
  std::uint64_t address;
  std::uint64_t size;
  std::uint64_t context;  // it goes with this one
  std::uint64_t granule;
  int device;
  bool managed = false;
};

constexpr std::uint64_t RoundDown(std::uint64_t value, std::uint64_t step) { return value - value % step; }
// The largest multiple where the next one cannot be told in 64 bits.
constexpr std::uint64_t RoundUp(std::uint64_t value, std::uint64_t step) {
  const std::uint64_t rest = value % step;
  if (rest == 0) return value;
  return value > UINT64_MAX - step ? RoundDown(UINT64_MAX, step) : value + (step - rest);
}

class Allocations {
 public:
  // Enters an allocation that the driver has made. `cost` is what the device gave for it. False when there is
  // no memory for the entry: nothing is entered.
  bool Add(const Allocation& allocation, std::uint64_t& cost);
  // Takes the entry of an address out, before the driver is asked to free it: afterwards the address may be
  // another thread's. Its bytes still count. Then Freed, or PutBack where the driver refused.
  bool Take(std::uint64_t address, Allocation& allocation);
  // False when there is no memory for the entry any more; then it counts for ever.
  bool PutBack(const Allocation& allocation);
  // What the device has back.
  std::uint64_t Freed(const Allocation& allocation);

  // Takes out up to `room` allocations of a context; returns how many.
  unsigned TakeOf(std::uint64_t context, Allocation* taken, unsigned room);

  // Bytes of what is managed memory, in whole granules where it has any for itself.
  std::uint64_t managed() const { return managed_; }

  std::size_t size() const { return entries_.size(); }
  void Reset() {
    entries_.Reset();
    shared_.Reset();
    managed_ = 0;
  }

 private:
  struct Count {
    std::uint64_t users;
  };
  // Bytes of granules that the allocation is the first to touch, or the last.
  std::uint64_t Join(const Allocation& allocation, bool& complete);
  std::uint64_t Leave(const Allocation& allocation);

  Table<Allocation> entries_;
  Table<Count> shared_;  // granules that an allocation touches in part, by number + 1
  std::uint64_t managed_;
};

}  // namespace gpuman::shim
