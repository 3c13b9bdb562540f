// Moves backed memory out and back, piece by piece. Only the service thread calls these functions, while the
// gate is closed.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/eviction/eviction_state.h"

namespace gpuman::shim {

// Marks pieces that are to leave the device: at least `bytes`, or all that can leave. Memory that was
// allocated first leaves first. Returns how many bytes it has marked.
std::uint64_t MarkGoing(EvictionState& state, int device, std::uint64_t bytes);
void UnmarkAll(EvictionState& state);
// Asks the driver which devices may read and write the marked memory of the program's own. Where the driver
// does not tell, the memory loses its mark.
void LearnAccess(EvictionState& state);
// Unmaps the memory of the pieces with this mark on the device, or on all devices. Returns how many bytes
// they had.
inline constexpr int kAllDevices = -1;
std::uint64_t UnmapMarked(EvictionState& state, PieceBacking::Mark mark, int device);
// Calls function(piece) for each piece with this mark, while the function returns true. Returns false where
// the function returned false.
template <typename Function>
bool ForEachMarked(EvictionState& state, PieceBacking::Mark mark, Function function) {
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
// Maps memory that came as a descriptor at the addresses of a piece. Takes over the descriptor in any case.
driver::abi::CUresult AdoptPiece(EvictionState& state, std::uint64_t address, std::uint64_t bytes,
                                 int descriptor);
// The service thread calls this after it has adopted all pieces: this lets the devices use them.
driver::abi::CUresult GiveAccessToFresh(EvictionState& state);
// The service thread calls this after all memory has come back: this removes the marks. A piece whose
// descriptor could not be kept is stuck from now on.
void FinishAdoption(EvictionState& state);

}  // namespace gpuman::shim
