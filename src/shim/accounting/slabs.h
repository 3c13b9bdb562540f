// Small allocations in slabs of device memory, packed in multiples of 512 bytes as the driver packs its own.
//
// A slab is one granule, and all allocations in it are of one context. Pure; not thread-safe. An object of
// zeros is empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/libc/hash_table.h"

namespace gpuman::shim {

// A part of a slab that the program was given.
struct SlabAllocation {
  std::uint64_t address;
  std::uint64_t size;    // as the program asked for it
  std::uint64_t number;  // no other allocation of the process ever has this number
};

class Slabs {
 public:
  static constexpr std::uint64_t kStep = 512;
  static constexpr std::uint64_t kBytes = std::uint64_t{2} << 20;

  // Enters a slab. Returns false when there is no memory for the entry.
  bool Add(std::uint64_t address, std::uint64_t context, int device);
  // Removes the slab at the address, with all its allocations.
  void Drop(std::uint64_t address);
  bool Has(std::uint64_t address) { return slabs_.Find(address) != nullptr; }

  // Finds room for `size` bytes, above 0, in a slab of the context. Returns false when no slab has room.
  bool Allocate(std::uint64_t context, int device, std::uint64_t size, SlabAllocation& small);
  // Finds the allocation, in the slab that begins at `slab`, in which the address lies. Returns false when
  // the address lies in none.
  bool Find(std::uint64_t slab, std::uint64_t address, SlabAllocation& small);
  // Frees an allocation that Find told, and says whether the slab is empty then; kNone: it is freed already.
  enum class Freed { kNone, kSome, kLast };
  Freed Free(std::uint64_t slab, const SlabAllocation& small);

  void Reset();

 private:
  static constexpr unsigned kSteps = kBytes / kStep;
  static constexpr unsigned kWords = kSteps / 64;

  // Each Slab has a page of its own. The parts of it in which nothing was allocated are not touched.
  struct Slab {
    std::uint64_t address, context;
    int device;
    unsigned used;     // in steps
    unsigned longest;  // no run of free steps is longer than this
    std::uint64_t taken[kWords];
    std::uint16_t steps[kSteps];  // of the allocation that begins at the step; 0: none begins there
    std::uint16_t slack[kSteps];  // unused bytes of its last step
    std::uint64_t number[kSteps];
  };
  struct SlabRef {
    std::uint64_t slab;  // the address of a Slab in this process
  };
  static Slab* At(const SlabRef& ref) { return reinterpret_cast<Slab*>(ref.slab); }
  static bool IsTaken(const Slab& slab, unsigned step) {
    return (slab.taken[step / 64] >> step % 64 & 1) != 0;
  }
  static bool FindFree(Slab& slab, unsigned steps, unsigned& first);
  static SlabAllocation Tell(const Slab& slab, unsigned first);

  HashTable<SlabRef> slabs_;              // by the address on the device
  std::uint64_t last_ = 0, numbers_ = 0;  // the slab that served last; the last number
};

}  // namespace gpuman::shim
