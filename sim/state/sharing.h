// Device memory that several processes hold, passed on as a descriptor. Each holder accounts it (memory.h);
// this table records the holders, so that the device counts the memory once. Only the holder with the
// youngest context shows the memory (measured on an H200 with two processes, whichever of them had made the
// memory).
//
// Holders are named by their identity (ProcessSlot::owner): a dead holder does not count, even before a
// sweep.
#pragma once

#include <cstdint>

#include "sim/state/layout.h"

namespace gpuman::sim {

// Records that the slot's process also holds the memory with this inode. A full table, or one of holders
// (kMaxHolders), records nothing: the memory is then counted more than once.
void BeginSharing(Shared& shared, unsigned slot, unsigned gpu, std::uint64_t inode, std::uint64_t bytes);
void EndSharing(Shared& shared, unsigned slot, std::uint64_t inode);

// The units on the GPU that are accounted more than once.
std::uint64_t CountedAgain(const Shared& shared, unsigned gpu);
// The units that the process accounts but another process shows.
std::uint64_t PassedOn(const Shared& shared, std::uint64_t owner, unsigned gpu);

}  // namespace gpuman::sim
