// Backed memory: device memory of the program that the shim makes of the driver's virtual memory, so that the
// memory behind the addresses can leave the device and come back.
//
// The callers have passed the gate, where nothing else is said.
#pragma once

#include "driver/abi/cuda.h"
#include "ledger/wire/words.h"
#include "shim/accounting/homes.h"
#include "shim/accounting/meter.h"
#include "shim/backing/backing_state.h"

namespace gpuman::shim {

// Smaller allocations share slabs of this size.
inline constexpr std::uint64_t kMinBacked = Slabs::kBytes;

// Returns whether memory is backed here: the job is evictable, and the process sees one device, or several
// devices that reach each other.
bool IsBacked(BackingState& state);
// Returns whether memory on the device is backed: the device is a home of the process (accounting/homes.h),
// or becomes one.
bool IsBackedOn(BackingState& state, int device);
// The program has a context on the device. Plain memory can be copied from there, so the device gets access
// to backed memory as well. The caller holds state.contexts.
void ReachFrom(BackingState& state, int device);

driver::abi::CUresult AllocateBacked(BackingState& state, const AllocationTarget& where,
                                     driver::abi::CUdeviceptr* pointer, std::uint64_t bytes);
// Returns false where the pointer is not backed memory. Otherwise `result` is the answer of cuMemFree.
bool FreeBacked(BackingState& state, driver::abi::CUdeviceptr pointer, driver::abi::CUresult& result);
// Frees all backed memory of a context that has ended.
void DropBackedOf(BackingState& state, std::uint64_t context);
// Finds the allocation of backed memory in which the pointer lies: its address, size and context. `number` is
// the number of a small allocation, or of an allocation of a pool, else 0. Returns false where the shim has
// nothing at the pointer. If `slab` is true then, the pointer lies in an unused part of a slab or a pool: no
// allocation has it. The caller does not hold state.pools.
struct FoundAllocation {
  Region region;
  std::uint64_t number;
  bool slab;
  driver::abi::CUmemoryPool handle;  // the pool of the allocation; null: none, or destroyed
};
bool FindBacked(BackingState& state, driver::abi::CUdeviceptr pointer, FoundAllocation& found);
// The region stays on the device from now on, since others can reach it. The caller holds `books`.
void PinRegion(BackingState& state, const Region& region);

// Makes a segment of the pool with that number: a region that does not end with a context. `bytes` are whole
// granules.
driver::abi::CUresult MakeSegment(BackingState& state, const AllocationTarget& where, unsigned pool,
                                  std::uint64_t bytes, std::uint64_t& address);
void GiveUpSegment(BackingState& state, std::uint64_t address);
// Lets more devices use the segments that the pool has now.
void OpenSegments(BackingState& state, unsigned pool, std::uint64_t readers, std::uint64_t writers);

// Maps memory at the pieces of the region that have none, and marks these pieces. Where it fails, the pieces
// that are mapped stay mapped.
driver::abi::CUresult MapRegion(BackingState& state, const Region& region,
                                PieceBacking::Mark mark = PieceBacking::kNone);
// Lets the region's readers and writers use its memory.
driver::abi::CUresult GiveAccess(const Region& region);
// Lets the devices with contexts use the region at the address.
void GiveReach(BackingState& state, std::uint64_t address);
// Unmaps the memory of one piece. Returns how many bytes it was.
std::uint64_t UnmapPiece(BackingState& state, const Piece& piece);
// Unmaps all memory of the region. Returns how many bytes it was. The addresses stay reserved.
std::uint64_t UnmapRegion(BackingState& state, const Region& region);

// Returns the piece's memory as a descriptor, for the caller to close; -1: the piece cannot leave, or
// `result` is the driver's error.
int DescriptorOf(BackingState& state, const Piece& piece, driver::abi::CUresult& result);

// These functions tell the daemon, in the ledger, how many bytes of each home can leave, how many are in host
// memory instead, and whether memory is shared with other processes. They do nothing before the process has
// joined.
void TellEvictable(BackingState& state);
void TellEvicted(BackingState& state);
void TellImported(BackingState& state);
// The program has let others reach memory of its own; the slot tells it from now on.
void TellShares(BackingState& state);
// Tells the daemon, after the process has joined, what the slot could not say before.
void TellAfterJoining(BackingState& state);
// Returns how many bytes can leave the device.
std::uint64_t BytesEvictable(BackingState& state, int device);
// Calls function(device) for each home that the process has now.
template <typename Function>
void ForEachHome(BackingState& state, Function function) {
  const int first = static_cast<int>(ledger::wire::Load(state.first_home)) - 1;
  for (int device = 0; device < state.visible; ++device) {
    if (state.visible == 1 || device == first || HomeEntryOf(state, device) != 0) function(device);
  }
}

}  // namespace gpuman::shim
