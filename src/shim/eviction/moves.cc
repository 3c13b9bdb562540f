#include "shim/eviction/moves.h"

#include <unistd.h>

#include "shim/backing/backing.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"

namespace gpuman::shim {
namespace {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

// Calls function(piece, backing) for each piece of the region that is on the device, can leave it, and is not
// chosen yet. The caller holds `books`.
template <typename Function>
void ForEachThatCanLeave(EvictionState& state, const Region& region, Function function) {
  for (unsigned p = 0; p < PiecesOf(region); ++p) {
    const Piece piece = PieceOf(region, p);
    PieceBacking* const known = state.handles.Find(piece.address);
    if (known != nullptr && known->kept != PieceBacking::kStuck && !known->stays &&
        known->mark != PieceBacking::kGoing)
      function(piece, *known);
  }
}

// Returns how many bytes can leave, of the device's regions up to allocation number `born`.
std::uint64_t BytesUpTo(EvictionState& state, int device, std::uint64_t born) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < state.regions.size(); ++i) {
    const Region& region = state.regions.at(i);
    if (region.device != device || region.born > born) continue;
    ForEachThatCanLeave(state, region,
                        [&](const Piece& piece, const PieceBacking&) { bytes += piece.bytes; });
  }
  return bytes;
}

}  // namespace

std::uint64_t MarkGoing(EvictionState& state, int device, std::uint64_t bytes) {
  const Locked lock(state.books);
  // Find the first allocation up to which enough bytes can leave.
  std::uint64_t low = 0, high = state.births;
  while (low < high && bytes < state.regions.BytesOn(device)) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (BytesUpTo(state, device, middle) >= bytes)
      high = middle;
    else
      low = middle + 1;
  }
  std::uint64_t marked = 0;
  for (const bool last : {false, true}) {
    for (std::size_t i = 0; i < state.regions.size(); ++i) {
      const Region& region = state.regions.at(i);
      if (region.device != device || (last ? region.born != high : region.born >= high)) continue;
      ForEachThatCanLeave(state, region, [&](const Piece& piece, PieceBacking& backing) {
        if (marked >= bytes) return;
        backing.mark = PieceBacking::kGoing;
        marked += piece.bytes;
      });
    }
  }
  return marked;
}

void UnmarkAll(EvictionState& state) {
  const Locked lock(state.books);
  state.handles.ForEach([](std::uint64_t, PieceBacking& backing) { backing.mark = PieceBacking::kNone; });
}

void LearnAccess(EvictionState& state) {
  auto* const ask = GPUMAN_REAL(cuMemGetAccess);
  ForEachMarked(state, PieceBacking::kGoing, [&](const Piece& piece) {
    {
      const Locked lock(state.books);
      const Region* const region = state.regions.Find(piece.address);
      if (region == nullptr || region->token == 0) return true;
    }
    std::uint64_t readers = 0, writers = 0;
    bool told = ask != nullptr;
    for (int device = 0; device < state.visible && told; ++device) {
      const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device};
      unsigned long long flags = 0;
      told = ask(&flags, &location, piece.address) == CUDA_SUCCESS;
      if ((flags & CU_MEM_ACCESS_FLAGS_PROT_READ) != 0) readers |= DeviceBit(device);
      if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) writers |= DeviceBit(device);
    }
    const Locked lock(state.books);
    if (told)
      state.regions.SetAccess(piece.address, readers, writers);
    else if (PieceBacking* const known = state.handles.Find(piece.address))
      known->mark = PieceBacking::kNone;
    return true;
  });
}

std::uint64_t UnmapMarked(EvictionState& state, PieceBacking::Mark mark, int device) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < state.regions.size(); ++i) {
    const Region region = state.regions.at(i);
    if (device != kAllDevices && region.device != device) continue;
    for (unsigned p = 0; p < PiecesOf(region); ++p) {
      const Piece piece = PieceOf(region, p);
      bool marked = false;
      {
        const Locked lock(state.books);
        const PieceBacking* const known = state.handles.Find(piece.address);
        marked = known != nullptr && known->mark == mark;
      }
      if (marked) bytes += UnmapPiece(state, piece);
    }
  }
  return bytes;
}

CUresult AdoptPiece(EvictionState& state, std::uint64_t address, std::uint64_t bytes, int descriptor) {
  auto* const import = GPUMAN_REAL(cuMemImportFromShareableHandle);
  auto* const map = GPUMAN_REAL(cuMemMap);
  auto* const release = GPUMAN_REAL(cuMemRelease);
  bool here = false, known = false;
  {
    const Locked lock(state.books);
    here = state.handles.Find(address) != nullptr;
    const Region* const region = state.regions.Find(address);
    for (unsigned i = 0; region != nullptr && i < PiecesOf(*region); ++i) {
      const Piece own = PieceOf(*region, i);
      known = known || (own.address == address && own.bytes == bytes);
    }
  }
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  CUmemGenericAllocationHandle handle = 0;
  if (import != nullptr && map != nullptr && release != nullptr && known && !here)
    result = import(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS) {
    result = map(address, bytes, 0, handle, 0);
    if (result != CUDA_SUCCESS) release(handle);
  }
  if (result != CUDA_SUCCESS) {
    ::close(descriptor);
    return here ? CUDA_SUCCESS : known ? result : CUDA_ERROR_INVALID_VALUE;
  }
  const int kept = PutDescriptor(state.descriptor_store, descriptor);
  const Locked lock(state.books);
  PieceBacking* const entry = state.handles.Insert(address);
  if (entry == nullptr) {
    if (auto* const unmap = GPUMAN_REAL(cuMemUnmap)) unmap(address, bytes);
    release(handle);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *entry = {handle, kept > 0 ? kept : PieceBacking::kUnkept, PieceBacking::kFresh};
  state.imported += bytes;
  return CUDA_SUCCESS;
}

CUresult GiveAccessToFresh(EvictionState& state) {
  for (std::size_t i = 0; i < state.regions.size(); ++i) {
    const Region region = state.regions.at(i);
    bool fresh = false;
    {
      const Locked lock(state.books);
      for (unsigned p = 0; p < PiecesOf(region) && !fresh; ++p) {
        const PieceBacking* const known = state.handles.Find(PieceOf(region, p).address);
        fresh = known != nullptr && known->mark == PieceBacking::kFresh;
      }
    }
    const CUresult result = fresh ? GiveAccess(region) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

void FinishAdoption(EvictionState& state) {
  const Locked lock(state.books);
  for (std::size_t r = 0; r < state.regions.size(); ++r) {
    const Region& region = state.regions.at(r);
    for (unsigned i = 0; i < PiecesOf(region); ++i) {
      const Piece piece = PieceOf(region, i);
      PieceBacking* const known = state.handles.Find(piece.address);
      if (known == nullptr) continue;
      known->mark = PieceBacking::kNone;
      if (known->kept != PieceBacking::kUnkept) continue;
      known->kept = PieceBacking::kStuck;
      state.stuck[piece.device] += piece.bytes;
    }
  }
}

}  // namespace gpuman::shim
