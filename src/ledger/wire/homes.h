// The entries of Ledger::home: each is one GPU of one process, beside the process's first home, whose memory
// can leave it.
//
// A process claims a free entry by exchanging `owner`, and keeps it until it ends; the process that clears
// its slot frees its entries (slot_balance.h). Only the thread that may change the slot calls ClaimHome and
// ClearHomes for it. A program may have written anything into the ledger: no function here follows what it
// reads unchecked.
#pragma once

#include <initializer_list>

#include "ledger/wire/layout.h"
#include "ledger/wire/words.h"

namespace gpuman::ledger::wire {

constexpr std::uint32_t PackOwner(unsigned slot, unsigned gpu) { return (slot + 1) | (gpu + 1) << 16; }

// Returns the GPU (below kMaxGpus) of an entry that the slot owns; -1: the slot does not own it.
constexpr int GpuOfOwner(std::uint32_t owner, unsigned slot) {
  const std::uint32_t gpu = owner >> 16;
  return (owner & 0xffff) == slot + 1 && gpu != 0 && gpu <= kMaxGpus ? static_cast<int>(gpu) - 1 : -1;
}

// Returns the index of the entry that the slot has for the GPU; -1: it has none.
inline int FindHome(const Ledger& ledger, unsigned slot, unsigned gpu) {
  for (unsigned i = 0; i < kHomes; ++i) {
    if (Load(ledger.home[i].owner) == PackOwner(slot, gpu)) return static_cast<int>(i);
  }
  return -1;
}

// Claims an entry for the GPU, unless the slot has one already. Returns its index; -1: there is no free one.
inline int ClaimHome(Ledger& ledger, unsigned slot, unsigned gpu) {
  if (const int known = FindHome(ledger, slot, gpu); known >= 0) return known;
  for (unsigned i = 0; i < kHomes; ++i) {
    std::uint32_t free = 0;
    if (__atomic_compare_exchange_n(&ledger.home[i].owner, &free, PackOwner(slot, gpu), false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return static_cast<int>(i);
  }
  return -1;
}

// Frees all entries of the slot. The caller holds the slot's lock; the slot's process has ended.
inline void ClearHomes(Ledger& ledger, unsigned slot) {
  for (EvictableGpuEntry& home : ledger.home) {
    if ((Load(home.owner) & 0xffff) != slot + 1) continue;
    Store(home.wants, 0);
    for (std::uint64_t* const word : {&home.evictable, &home.evicted, &home.order_bytes}) Store(*word, 0);
    Store(home.owner, 0);  // last: from now on the entry may be another process's
  }
}

}  // namespace gpuman::ledger::wire
