#include "shim/accounting/slabs.h"

#include <sys/mman.h>

namespace gpuman::shim {

bool Slabs::Add(std::uint64_t address, std::uint64_t context, int device) {
  void* const memory =
      ::mmap(nullptr, sizeof(Slab), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  ::madvise(memory, sizeof(Slab), MADV_DONTFORK);
  SlabRef* const ref = slabs_.Insert(address);
  if (ref == nullptr) {
    ::munmap(memory, sizeof(Slab));
    return false;
  }
  ref->slab = reinterpret_cast<std::uintptr_t>(memory);
  Slab& slab = *At(*ref);
  slab.address = address;
  slab.context = context;
  slab.device = device;
  slab.longest = kSteps;
  last_ = address;
  return true;
}

void Slabs::Drop(std::uint64_t address) {
  SlabRef ref{};
  if (slabs_.Take(address, ref)) ::munmap(At(ref), sizeof(Slab));
}

// Finds the first run of `steps` free steps.
bool Slabs::FindFree(Slab& slab, unsigned steps, unsigned& first) {
  if (steps > slab.longest) return false;
  unsigned free = 0, longest = 0;
  for (unsigned step = 0; step < kSteps; ++step) {
    if (free == 0 && step % 64 == 0 && slab.taken[step / 64] == ~std::uint64_t{0}) {
      step += 63;
      continue;
    }
    free = IsTaken(slab, step) ? 0 : free + 1;
    if (free > longest) longest = free;
    if (free < steps) continue;
    first = step + 1 - free;
    return true;
  }
  slab.longest = longest;
  return false;
}

SlabAllocation Slabs::Tell(const Slab& slab, unsigned first) {
  return {slab.address + first * kStep, slab.steps[first] * kStep - slab.slack[first], slab.number[first]};
}

bool Slabs::Allocate(std::uint64_t context, int device, std::uint64_t size, SlabAllocation& small) {
  if (size == 0 || size > kBytes) return false;
  const auto steps = static_cast<unsigned>((size + kStep - 1) / kStep);
  Slab* found = nullptr;
  unsigned first = 0;
  const auto fits = [&](const SlabRef& ref) {
    Slab& slab = *At(ref);
    if (found == nullptr && slab.context == context && slab.device == device && FindFree(slab, steps, first))
      found = &slab;
  };
  if (const SlabRef* const last = slabs_.Find(last_)) fits(*last);
  if (found == nullptr) slabs_.ForEach([&](std::uint64_t, const SlabRef& ref) { fits(ref); });
  if (found == nullptr) return false;
  for (unsigned step = first; step < first + steps; ++step)
    found->taken[step / 64] |= std::uint64_t{1} << step % 64;
  found->used += steps;
  found->steps[first] = static_cast<std::uint16_t>(steps);
  found->slack[first] = static_cast<std::uint16_t>(steps * kStep - size);
  found->number[first] = ++numbers_;
  last_ = found->address;
  small = Tell(*found, first);
  return true;
}

bool Slabs::Find(std::uint64_t slab, std::uint64_t address, SlabAllocation& small) {
  const SlabRef* const ref = slabs_.Find(slab);
  if (ref == nullptr || address < slab || address - slab >= kBytes) return false;
  const Slab& found = *At(*ref);
  auto first = static_cast<unsigned>((address - slab) / kStep);
  if (!IsTaken(found, first)) return false;
  while (found.steps[first] == 0) --first;
  small = Tell(found, first);
  return address - small.address < small.size;
}

Slabs::Freed Slabs::Free(std::uint64_t slab, const SlabAllocation& small) {
  SlabRef* const ref = slabs_.Find(slab);
  if (ref == nullptr) return Freed::kNone;
  Slab& found = *At(*ref);
  const auto first = static_cast<unsigned>((small.address - slab) / kStep);
  if (found.number[first] != small.number || found.steps[first] == 0) return Freed::kNone;
  const unsigned steps = found.steps[first];
  for (unsigned step = first; step < first + steps; ++step)
    found.taken[step / 64] &= ~(std::uint64_t{1} << step % 64);
  found.steps[first] = 0;
  found.used -= steps;
  found.longest = kSteps;
  return found.used == 0 ? Freed::kLast : Freed::kSome;
}

void Slabs::Reset() {
  slabs_.ForEach([](std::uint64_t, const SlabRef& ref) { ::munmap(At(ref), sizeof(Slab)); });
  slabs_.Reset();
}

}  // namespace gpuman::shim
