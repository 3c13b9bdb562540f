// High-water marks of the job's processes: the most that a process has counted on a GPU at a time, and what
// that was. For people, as detail.h: the daemon decides nothing by it. A mark outlives its process.
//
// The slots before those of detail.h have no process; each holds the marks of kPeaksPerSlot processes
// instead. Ledgers of older daemons may have processes there: a shim writes only where the ledger has
// kFeaturePeaks, and where no pid is.
//
// A process claims a free mark by exchanging `owner`, and only that process writes it afterwards. The daemon
// frees marks of processes that have ended when few are free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ledger/wire/detail.h"
#include "ledger/wire/layout.h"
#include "ledger/wire/slot_balance.h"
#include "ledger/wire/words.h"

namespace gpuman::ledger::wire {

inline constexpr unsigned kPeakSlots = 6, kPeaksPerSlot = 5;
inline constexpr unsigned kPeaks = kPeakSlots * kPeaksPerSlot;
// The slots below have processes, more than a thousand.
inline constexpr unsigned kProcessSlots = kFirstDetail - kPeakSlots;

// In units. A reader believes it only where the parts are `sum`, which is written last.
struct PeakParts {
  std::uint32_t of_kind[kMemoryKinds];  // by MemoryKind
  std::uint32_t sum;                    // 0: nothing was told
};

struct ProcessPeak {
  std::uint64_t owner;    // PackPeakOwner; 0: the mark is free
  std::uint64_t name[2];  // of its program; characters, and zeros behind them
  // The peak and the one before it: a process that is killed while it writes one leaves the other.
  PeakParts parts[2];
};

struct ProcessPeakArray {
  std::uint32_t pid;  // 0; else a process has the slot
  std::uint8_t reserved1[4];
  ProcessPeak peak[kPeaksPerSlot];
  std::uint8_t reserved2[16];
};

static_assert(kProcessSlots > 1000);
static_assert(sizeof(ProcessPeak) == 72 && offsetof(ProcessPeak, name) == 8 &&
              offsetof(ProcessPeak, parts) == 24 && offsetof(PeakParts, sum) == 20);
static_assert(sizeof(ProcessPeakArray) == sizeof(Slot) && offsetof(ProcessPeakArray, peak) == 8);

// pid << 32 | slot + 1 << 8 | GPU + 1
constexpr std::uint64_t PackPeakOwner(std::uint32_t pid, unsigned slot, unsigned gpu) {
  return std::uint64_t{pid} << 32 | (slot + 1) << 8 | (gpu + 1);
}
constexpr std::uint32_t PidOfPeak(std::uint64_t owner) { return static_cast<std::uint32_t>(owner >> 32); }
// Returns the slot that the process had; kSlots or more: a program has written the owner.
constexpr unsigned SlotOfPeak(std::uint64_t owner) {
  return static_cast<unsigned>(owner >> 8 & 0xffffff) - 1;
}
// Returns the index of the GPU in the ledger; kMaxGpus or more: a program has written the owner.
constexpr unsigned GpuOfPeak(std::uint64_t owner) { return static_cast<unsigned>(owner & 0xff) - 1; }

// `index` is below kPeaks. Returns null where a process has the slot.
inline ProcessPeak* PeakAt(Ledger& ledger, unsigned index) {
  Slot& slot = ledger.slot[kProcessSlots + index / kPeaksPerSlot];
  return Load(slot.pid) == 0 ? &reinterpret_cast<ProcessPeakArray*>(&slot)->peak[index % kPeaksPerSlot]
                             : nullptr;
}
inline const ProcessPeak* PeakAt(const Ledger& ledger, unsigned index) {
  return PeakAt(const_cast<Ledger&>(ledger), index);
}

// Claims a mark for the process in the slot. Returns null: there is no free one, or the daemon is older.
inline ProcessPeak* ClaimPeak(Ledger& ledger, unsigned slot, unsigned gpu, const std::uint64_t (&name)[2]) {
  if ((Load(ledger.features) & kFeaturePeaks) == 0) return nullptr;
  const std::uint64_t owner = PackPeakOwner(Load(ledger.slot[slot].pid), slot, gpu);
  for (unsigned i = 0; i < kPeaks; ++i) {
    ProcessPeak* const peak = PeakAt(ledger, i);
    std::uint64_t free = 0;
    if (peak == nullptr || Load(peak->owner) != 0 ||
        !__atomic_compare_exchange_n(&peak->owner, &free, owner, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      continue;
    for (unsigned word = 0; word < 2; ++word) Store(peak->name[word], name[word]);
    return peak;
  }
  return nullptr;
}

// Only the process that owns the mark calls it, with more bytes each time.
inline void WritePeak(ProcessPeak& peak, const std::uint64_t (&bytes_of_kind)[kMemoryKinds]) {
  PeakParts& parts = peak.parts[Load(peak.parts[0].sum) <= Load(peak.parts[1].sum) ? 0 : 1];
  std::uint32_t sum = 0;
  StoreRelease(parts.sum, 0);
  for (unsigned kind = 0; kind < kMemoryKinds; ++kind) {
    const auto units = static_cast<std::uint32_t>(UnitsOf(bytes_of_kind[kind]));
    StoreRelease(parts.of_kind[kind], units);
    sum += units;
  }
  StoreRelease(parts.sum, sum);
}

// Reads the parts that have the larger sum. Returns false where nothing was told.
inline bool ReadPeak(const ProcessPeak& peak, PeakParts& told) {
  told.sum = 0;
  for (const PeakParts& parts : peak.parts) {
    PeakParts read{};
    std::uint64_t sum = 0;
    read.sum = Load(parts.sum);
    for (unsigned kind = 0; kind < kMemoryKinds; ++kind)
      sum += read.of_kind[kind] = Load(parts.of_kind[kind]);
    if (sum == read.sum && Load(parts.sum) == read.sum && read.sum > told.sum) told = read;
  }
  return told.sum != 0;
}

// Frees the mark of a process that has ended.
inline void FreePeak(ProcessPeak& peak) {
  for (PeakParts& parts : peak.parts) Store(parts.sum, 0);
  Store(peak.owner, 0);  // last: from now on the mark may be another process's
}

}  // namespace gpuman::ledger::wire
