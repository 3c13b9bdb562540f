// What the shims tell of a GPU for people: of what the memory was at the peak and when an allocation was
// refused. The daemon decides nothing by it.
//
// The last kMaxGpus slots of the ledger have no process; each of them holds the detail of one GPU instead.
// Ledgers of older daemons may have processes there, so a shim writes only where no pid is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ledger/wire/layout.h"
#include "ledger/wire/words.h"

namespace gpuman::ledger::wire {

inline constexpr unsigned kFirstDetail = kSlots - kMaxGpus;  // a slot
inline constexpr std::uint64_t kUnknownBytes = UINT64_MAX;

// What a process has device memory for.
enum class MemoryKind : unsigned {
  kAllocation = 0,  // cuMemAlloc and its like, managed memory
  kPool = 1,        // stream-ordered: the driver's pools and the shim's own
  kVirtual = 2,     // cuMemCreate
  kArray = 3,
  kContext = 4
};
inline constexpr unsigned kMemoryKinds = 5;

// What the bytes were that counted on the GPU, as one process saw it. Two processes may write at the same
// time: a reader believes it only where the parts are `sum`.
struct Composition {
  std::uint64_t of_kind[kMemoryKinds];  // of that process, by MemoryKind
  std::uint64_t others;                 // of all other processes of the job
  std::uint64_t sum;                    // written last; 0: nothing was told
};

// How things were when an allocation was refused.
struct AtRefusal {
  std::uint64_t number;        // Refusal::number of it, written last; 0: nothing was told
  std::uint64_t pools_unused;  // the part of the process's pools that no allocation has; kUnknownBytes
  std::uint64_t device_free;   // as the driver says; kUnknownBytes
  Composition memory;
};

struct GpuPeakAndRefusals {
  std::uint32_t pid;  // 0; else a process has the slot
  std::uint8_t reserved1[4];
  Composition peak;    // when Gpu::peak was reached
  Refusal first;       // the first refusal of a run
  AtRefusal at_first;  // the daemon sets its number to 0 when a run begins
  AtRefusal at_last;   // of Gpu::refusal
  std::uint8_t reserved2[112];
};

static_assert(sizeof(Composition) == 56 && sizeof(AtRefusal) == 80);
static_assert(offsetof(GpuPeakAndRefusals, peak) == 8 && offsetof(GpuPeakAndRefusals, first) == 64 &&
              offsetof(GpuPeakAndRefusals, at_first) == 112 && offsetof(GpuPeakAndRefusals, at_last) == 192);
static_assert(sizeof(GpuPeakAndRefusals) == sizeof(Slot) && offsetof(Slot, pid) == 0);

// `gpu` is below kMaxGpus. Returns null where a process has the slot.
inline GpuPeakAndRefusals* DetailOf(Ledger& ledger, unsigned gpu) {
  Slot& slot = ledger.slot[kFirstDetail + gpu];
  return Load(slot.pid) == 0 ? reinterpret_cast<GpuPeakAndRefusals*>(&slot) : nullptr;
}
inline const GpuPeakAndRefusals* DetailOf(const Ledger& ledger, unsigned gpu) {
  return DetailOf(const_cast<Ledger&>(ledger), gpu);
}

// Writes `told`, of which the parts are `sum`.
inline void Write(Composition& to, const Composition& told) {
  StoreRelease(to.sum, 0);
  for (unsigned kind = 0; kind < kMemoryKinds; ++kind) StoreRelease(to.of_kind[kind], told.of_kind[kind]);
  StoreRelease(to.others, told.others);
  StoreRelease(to.sum, told.sum);
}

// Reads into `told`. Returns false where nothing was told, or the parts are not the sum.
inline bool Read(const Composition& from, Composition& told) {
  told.sum = Load(from.sum);
  std::uint64_t parts = told.others = Load(from.others);
  for (unsigned kind = 0; kind < kMemoryKinds; ++kind) parts += told.of_kind[kind] = Load(from.of_kind[kind]);
  return told.sum != 0 && parts == told.sum && Load(from.sum) == told.sum;
}

}  // namespace gpuman::ledger::wire
