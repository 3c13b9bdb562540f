#include "shim/accounting/allocations.h"

namespace gpuman::shim {
namespace {

// The granules that an allocation touches: granules that it fills alone, and at most two granules that other
// allocations may touch as well.
struct Touched {
  std::uint64_t whole = 0;     // how many it fills alone
  std::uint64_t part[2] = {};  // number + 1, 0: none
};

Touched TouchedBy(const Allocation& allocation) {
  Touched touched;
  const std::uint64_t first = allocation.address / allocation.granule;
  const std::uint64_t end = allocation.address + allocation.size;
  const std::uint64_t last = (end - 1) / allocation.granule;
  const bool fills_first =
      allocation.address % allocation.granule == 0 && end >= (first + 1) * allocation.granule;
  const bool fills_last = end % allocation.granule == 0 && allocation.address <= last * allocation.granule;
  if (!fills_first) touched.part[0] = first + 1;
  if (!fills_last && last != first) touched.part[1] = last + 1;
  touched.whole = last - first + 1 - (touched.part[0] != 0 ? 1 : 0) - (touched.part[1] != 0 ? 1 : 0);
  return touched;
}

std::uint64_t ManagedBytes(const Allocation& allocation) {
  if (!allocation.managed) return 0;
  return allocation.size < allocation.granule ? allocation.size
                                              : RoundUp(allocation.size, allocation.granule);
}

}  // namespace

std::uint64_t Allocations::Join(const Allocation& allocation, bool& complete) {
  const Touched touched = TouchedBy(allocation);
  std::uint64_t granules = touched.whole;
  complete = true;
  for (const std::uint64_t number : touched.part) {
    if (number == 0) continue;
    GranuleUsers* const count = shared_.Insert(number);
    if (count == nullptr) {
      complete = false;
      continue;
    }
    if (count->users++ == 0) ++granules;
  }
  return granules * allocation.granule;
}

std::uint64_t Allocations::Leave(const Allocation& allocation) {
  const Touched touched = TouchedBy(allocation);
  std::uint64_t granules = touched.whole;
  for (const std::uint64_t number : touched.part) {
    GranuleUsers* const count = shared_.Find(number);
    if (count == nullptr || --count->users != 0) continue;
    GranuleUsers gone{};
    shared_.Take(number, gone);
    ++granules;
  }
  return granules * allocation.granule;
}

bool Allocations::Add(const Allocation& allocation, std::uint64_t& cost) {
  cost = 0;
  if (allocation.size == 0 || allocation.granule == 0 || allocation.size > UINT64_MAX - allocation.address)
    return false;
  Allocation* const entry = entries_.Insert(allocation.address);
  if (entry == nullptr) return false;
  bool complete = false;
  cost = Join(allocation, complete);
  if (!complete) {
    // There is no memory for the entry of a shared granule. Give up the other one as well.
    Allocation ignored{};
    entries_.Take(allocation.address, ignored);
    Leave(allocation);
    cost = 0;
    return false;
  }
  *entry = allocation;
  managed_ += ManagedBytes(allocation);
  return true;
}

bool Allocations::Take(std::uint64_t address, Allocation& allocation) {
  return entries_.Take(address, allocation);
}

bool Allocations::PutBack(const Allocation& allocation) {
  Allocation* const entry = entries_.Insert(allocation.address);
  if (entry == nullptr) return false;
  *entry = allocation;
  return true;
}

std::uint64_t Allocations::Freed(const Allocation& allocation) {
  managed_ -= ManagedBytes(allocation);
  return Leave(allocation);
}

unsigned Allocations::TakeOf(std::uint64_t context, Allocation* taken, unsigned room) {
  unsigned count = 0;
  entries_.ForEach([&](std::uint64_t, const Allocation& entry) {
    if (entry.context == context && count < room) taken[count++] = entry;
  });
  for (unsigned i = 0; i < count; ++i) entries_.Take(taken[i].address, taken[i]);
  return count;
}

}  // namespace gpuman::shim
