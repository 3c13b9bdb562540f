// Backed memory on its way out and back, piece by piece. The service thread alone calls these functions, with
// the gate shut.
#pragma once

#include "driver/abi/cuda.h"
#include "shim/eviction/eviction_state.h"

namespace gpuman::shim {

// Marks pieces that are to leave, so many bytes at least or all that can leave; what was allocated first goes
// first. It returns how many bytes that are.
std::uint64_t MarkGoing(EvictionState& state, std::uint64_t bytes);
void UnmarkAll(EvictionState& state);
// Asks the driver which devices may do what with the marked memory of the program's own. Memory of which the
// driver does not tell that is marked no more.
void LearnAccess(EvictionState& state);
// Takes the memory away from the pieces so marked, and returns how many bytes.
std::uint64_t UnmapMarked(EvictionState& state, PieceBacking::Mark mark);
// Calls function(piece) for each of the pieces so marked, while it says true. It returns false where the
// function said false.
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
// Puts memory that came as a descriptor behind the piece's addresses. It takes the descriptor in any case.
driver::abi::CUresult AdoptPiece(EvictionState& state, const Piece& piece, int descriptor);
// Is called after all pieces were adopted: lets the devices use them.
driver::abi::CUresult GiveAccessToFresh(EvictionState& state);
// Is called after everything came back.
void SettleAdopted(EvictionState& state);

}  // namespace gpuman::shim
