// Small allocations in slabs of the device's memory: as the driver packs its own, from multiples of 512
// bytes.
//
// A slab is one granule, and all in it one context's. Pure; not thread-safe. All zeros is empty.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/accounting/table.h"

namespace gpuman::shim {

// What a program was given of a slab.
struct Small {
  std::uint64_t address;
  std::uint64_t size;    // as it asked
  std::uint64_t number;  // no other allocation of the process ever has it
};

class Slabs {
 public:
  static constexpr std::uint64_t kStep = 512;
  static constexpr std::uint64_t kBytes = std::uint64_t{2} << 20;

  // False: there is no memory for the entry.
  bool Add(std::uint64_t address, std::uint64_t context, int device);
  // The slab that is there goes, with all that is in it.
  void Drop(std::uint64_t address);
  bool Has(std::uint64_t address) { return slabs_.Find(address) != nullptr; }

  // Room for `size` bytes, above 0, in a slab of the context. False: in none.
  bool Allocate(std::uint64_t context, int device, std::uint64_t size, Small& small);
  // What the address lies in, of the slab that begins at `slab`. False: in nothing that is allocated.
  bool Find(std::uint64_t slab, std::uint64_t address, Small& small);
  // Gives back what Find told, and says whether the slab is empty then; kNone: it is gone already.
  enum class Freed { kNone, kSome, kLast };
  Freed Free(std::uint64_t slab, const Small& small);

  void Reset();

 private:
  static constexpr unsigned kSteps = kBytes / kStep;
  static constexpr unsigned kWords = kSteps / 64;

  // A page of its own each; what nothing was allocated in is not touched.
  struct Slab {
    std::uint64_t address, context;
    int device;
    unsigned used;     // steps
    unsigned longest;  // no more free steps than these follow one another
    std::uint64_t taken[kWords];
    std::uint16_t steps[kSteps];  // of the allocation that begins there; 0: none does
    std::uint16_t slack[kSteps];  // of its last step
    std::uint64_t number[kSteps];
  };
  struct SlabRef {
    std::uint64_t slab;  // a Slab's address here
  };
  static Slab* At(const SlabRef& ref) { return reinterpret_cast<Slab*>(ref.slab); }
  static bool IsTaken(const Slab& slab, unsigned step) {
    return (slab.taken[step / 64] >> step % 64 & 1) != 0;
  }
  static bool FindFree(Slab& slab, unsigned steps, unsigned& first);
  static Small Tell(const Slab& slab, unsigned first);

  Table<SlabRef> slabs_;                  // by the device's address
  std::uint64_t last_ = 0, numbers_ = 0;  // the slab that served last
};

}  // namespace gpuman::shim
