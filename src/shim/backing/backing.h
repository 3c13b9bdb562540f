// Device memory of the program's that the shim makes of the driver's virtual memory, so that what is behind
// the addresses can leave the device and come back.
//
// Functions are for calls that have passed the gate, where nothing else is said.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/accounting/meter.h"
#include "shim/backing/backing_state.h"

namespace gpuman::shim {

// Smaller allocations share slabs of this size.
inline constexpr std::uint64_t kMinBacked = Slabs::kBytes;

// Whether memory is backed here: the job is one that can be evicted, and the process sees one device, or
// several that reach each other.
bool IsBacked(BackingState& state);
// The same of memory on the device. Of several it is the one that memory is first wanted on.
bool IsBackedOn(BackingState& state, int device);
// There is a context on the device: as plain memory can be copied from there, it reaches what is backed. For
// who holds state.contexts.
void ReachFrom(BackingState& state, int device);

driver::abi::CUresult AllocateBacked(BackingState& state, const Where& where,
                                     driver::abi::CUdeviceptr* pointer, std::uint64_t bytes);
// False: it is none of ours. Else `result` is what cuMemFree answers.
bool FreeBacked(BackingState& state, driver::abi::CUdeviceptr pointer, driver::abi::CUresult& result);
// All of a context that is gone.
void DropBackedOf(BackingState& state, std::uint64_t context);
// What was allocated where the pointer is, of what the shim allocates: its address, size and context.
// `number` is that of a small allocation or of one of a pool, else 0. False: the shim has nothing there;
// where that is a slab's, or a pool's, nobody has. For who does not hold state.pools.
struct Found {
  Region region;
  std::uint64_t number;
  bool slab;
  driver::abi::CUmemoryPool handle;  // the pool that has it, while there is one
};
bool FindBacked(BackingState& state, driver::abi::CUdeviceptr pointer, Found& found);
// For who holds the books: others can reach it, so it stays on the device.
void PinRegion(BackingState& state, const Region& region);

// A segment of the pool with that number: a region that goes with no context. In whole granules.
driver::abi::CUresult MakeSegment(BackingState& state, const Where& where, unsigned pool, std::uint64_t bytes,
                                  std::uint64_t& address);
void GiveUpSegment(BackingState& state, std::uint64_t address);
// Lets more devices use what segments of that pool there are.
void OpenSegments(BackingState& state, unsigned pool, std::uint64_t readers, std::uint64_t writers);

// Puts memory behind the pieces of the region that have none, and marks them so. What was done stays where it
// fails.
driver::abi::CUresult MapRegion(BackingState& state, const Region& region,
                                PieceBacking::Mark mark = PieceBacking::kNone);
// Lets the devices use them that may.
driver::abi::CUresult GiveAccess(const Region& region);
// The same for those with contexts, of the region that begins there.
void GiveReach(BackingState& state, std::uint64_t address);
// Takes one piece's memory away; returns how many bytes it was.
std::uint64_t UnmapPiece(BackingState& state, const Piece& piece);
// Takes it away, all of it; returns how many bytes. The addresses stay reserved.
std::uint64_t UnmapRegion(BackingState& state, const Region& region);

// The piece's memory as a descriptor, for who closes it; -1: it cannot leave, or `result` says what the
// driver did.
int DescriptorOf(BackingState& state, const Piece& piece, driver::abi::CUresult& result);

// For the daemon to read, in the slot.
void TellEvictable(BackingState& state);
void TellImported(BackingState& state);  // also before a daemon has answered
// The process has joined: tells what it could not tell before.
void TellAfterJoining(BackingState& state);
// Bytes on the device that can leave it.
std::uint64_t BytesEvictable(BackingState& state);

}  // namespace gpuman::shim
