// Host memory for what leaves the device: huge pages where the kernel has them, registered with the driver so
// that copies run at the bus's speed. One range of addresses that grows in chunks from its beginning.
//
// Making it costs far more than a copy does, so the attendant makes it while the program runs. What the job
// may keep is counted in the ledger, and the machine's own need is left alone. For the attendant alone.
#pragma once

#include <cstdint>

#include "ledger/wire/orders.h"
#include "shim/account/regions.h"

namespace gpuman::shim {

struct Guest;

// Kept beyond what is needed, so that a program that frees and takes again costs nothing.
inline constexpr std::uint64_t kArenaSlack = 4 * kChunkBytes;

struct Arena {
  static constexpr unsigned kMostChunks = 8192;  // 512 GiB
  std::uint8_t* base;
  std::uint64_t ready;  // bytes, from the beginning; atomic, others look at it
  bool registered[kMostChunks];
};

// Makes it as large as that, by up to so many threads. kNone: it is; else it is as large as could be, kBudget
// or kHostMemory says why. With a context of the program's, where there is one.
ledger::wire::Trouble GrowArena(Guest& guest, std::uint64_t bytes, unsigned threads);

// Gives back what is not needed for so many bytes, but for a little.
void ShrinkArena(Guest& guest, std::uint64_t bytes);

// Processors that this process may use, up to eight.
unsigned CopyThreads();

}  // namespace gpuman::shim
