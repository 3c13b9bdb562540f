// Device memory that several processes hold, passed on as a descriptor. Each holder accounts it (memory.h);
// here is written down who they are, so that the device counts it once, and of the processes only the one
// with the youngest context (measured on an H200, whichever of two had made the memory).
//
// Holders are named by their identity (ProcessSlot::owner): one that died holds nothing, without being swept.
#pragma once

#include <cstdint>

#include "sim/state/layout.h"

namespace gpuman::sim {

// The slot's process holds the memory as well, with this inode. A table that is full writes nothing down: the
// memory is counted more than once then.
void BeginSharing(Shared& shared, unsigned slot, unsigned gpu, std::uint64_t inode, std::uint64_t bytes);
void EndSharing(Shared& shared, unsigned slot, std::uint64_t inode);

// Units accounted on the GPU beyond the first time.
std::uint64_t CountedAgain(const Shared& shared, unsigned gpu);
// Of what the process accounts, that is shown with another.
std::uint64_t PassedOn(const Shared& shared, std::uint64_t owner, unsigned gpu);

}  // namespace gpuman::sim
