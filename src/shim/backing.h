// Device memory of the program's that the shim makes of the driver's virtual memory, so that what is behind
// the addresses can leave the device and come back.
//
// Functions are for calls that have passed the gate, where nothing else is said.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/meter.h"
#include "shim/process_state.h"

namespace gpuman::shim {

// Smaller allocations share slabs of this size.
inline constexpr std::uint64_t kMinBacked = Slabs::kBytes;

// Whether memory is backed here: the job is one that can be evicted, and the process sees one device, or
// several that reach each other.
bool IsBacked(ProcessState& state);
// The same of memory on the device. Of several it is the one that memory is first wanted on.
bool IsBackedOn(ProcessState& state, int device);
// There is a context on the device: as plain memory can be copied from there, it reaches what is backed. For
// who holds state.contexts.
void ReachFrom(ProcessState& state, int device);

driver::abi::CUresult AllocateBacked(ProcessState& state, const Where& where,
                                     driver::abi::CUdeviceptr* pointer, std::uint64_t bytes);
// False: it is none of ours. Else `result` is what cuMemFree answers.
bool FreeBacked(ProcessState& state, driver::abi::CUdeviceptr pointer, driver::abi::CUresult& result);
// All of a context that is gone.
void DropBackedOf(ProcessState& state, std::uint64_t context);
// What was allocated where the pointer is, of what the shim allocates: its address, size and context.
// `number` is that of a small allocation or of one of a pool, else 0. False: the shim has nothing there;
// where that is a slab's, or a pool's, nobody has. For who does not hold state.pools.
struct Found {
  Region region;
  std::uint64_t number;
  bool slab;
  driver::abi::CUmemoryPool handle;  // the pool that has it, while there is one
};
bool FindBacked(ProcessState& state, driver::abi::CUdeviceptr pointer, Found& found);
// For who holds the books: others can reach it, so it stays on the device.
void PinRegion(ProcessState& state, const Region& region);

// A segment of the pool with that number: a region that goes with no context. In whole granules.
driver::abi::CUresult MakeSegment(ProcessState& state, const Where& where, unsigned pool, std::uint64_t bytes,
                                  std::uint64_t& address);
void GiveUpSegment(ProcessState& state, std::uint64_t address);
// Lets more devices use what segments of that pool there are.
void OpenSegments(ProcessState& state, unsigned pool, std::uint64_t readers, std::uint64_t writers);

// Puts memory behind the pieces of the region that have none, and marks them so. What was done stays where it
// fails.
driver::abi::CUresult MapRegion(ProcessState& state, const Region& region,
                                PieceBacking::Mark mark = PieceBacking::kNone);
// Lets the devices use them that may.
driver::abi::CUresult GiveAccess(const Region& region);
// The same for those with contexts, of the region that begins there.
void GiveReach(ProcessState& state, std::uint64_t address);
// Takes one piece's memory away; returns how many bytes it was.
std::uint64_t UnmapPiece(ProcessState& state, const Piece& piece);
// Takes it away, all of it; returns how many bytes. The addresses stay reserved.
std::uint64_t UnmapRegion(ProcessState& state, const Region& region);

// For the daemon to read, in the slot.
void TellEvictable(ProcessState& state);
void TellImported(ProcessState& state);  // also before a daemon has answered
// Bytes on the device that can leave it.
std::uint64_t BytesEvictable(ProcessState& state);

// The rest is for the service thread, with the gate shut.

// Marks pieces that are to leave, so many bytes at least or all that can; what was allocated first goes
// first. How many bytes that are.
std::uint64_t MarkGoing(ProcessState& state, std::uint64_t bytes);
void UnmarkAll(ProcessState& state);
// Which devices may do what with the marked memory of the program's own; what the driver does not tell that
// of is marked no more.
void LearnAccess(ProcessState& state);
// Takes the memory away from the pieces so marked; returns how many bytes.
std::uint64_t UnmapMarked(ProcessState& state, PieceBacking::Mark mark);
// Calls function(piece) for each of the pieces so marked, while it says true. False: it said false.
template <typename Function>
bool ForEachMarked(ProcessState& state, PieceBacking::Mark mark, Function function) {
  for (std::size_t i = 0; i < state.regions.size(); ++i) {
    const Region region = state.regions.at(i);
    for (unsigned p = 0; p < PiecesOf(region); ++p) {
      const Piece piece = PieceOf(region, p);
      const PieceBacking* const known = state.handles.Find(piece.address);
      if (known != nullptr && known->mark == mark && !function(piece)) return false;
    }
  }
  return true;
}
// The piece's memory as a descriptor, for who closes it; -1: it cannot leave, or `result` says what the
// driver did.
int DescriptorOf(ProcessState& state, const Piece& piece, driver::abi::CUresult& result);
// Memory that came as a descriptor, which is taken in any case, behind the piece's addresses.
driver::abi::CUresult AdoptPiece(ProcessState& state, const Piece& piece, int descriptor);
// After all pieces were adopted.
driver::abi::CUresult GiveAccessToFresh(ProcessState& state);
// After everything came back.
void SettleAdopted(ProcessState& state);

}  // namespace gpuman::shim
