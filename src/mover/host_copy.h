// The host copy of one piece: where it is, and what the mover knows of its chunks. Values; the functions are
// pure.
//
// The mover copies a chunk to the host when the chunk leaves the GPU for the first time. Later the chunk's
// hash on the GPU tells whether the copy still holds the same bytes; the mover never copies a chunk of zeros.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "mover/chunk_hash.h"
#include "mover/gpus.h"
#include "mover/host_arena.h"

namespace gpuman::mover {

struct ChunkRecord {
  enum class State : std::uint8_t {
    kUnknown,  // the host memory of the chunk may hold anything
    kCopying,  // a copy overwrites it with bytes of this hash
    kHeld,     // it holds bytes of this hash
    kZero      // the chunk is zeros; its host memory may hold anything
  };
  State state = State::kUnknown;
  ChunkHash hash{};
};

struct HostCopy {
  std::uint64_t bytes = 0;  // of the piece
  Extents extents;
  std::vector<ChunkRecord> chunks;  // the piece's whole chunks; a rest behind them has no record
};

HostCopy EmptyCopy(std::uint64_t bytes, Extents extents);

// Sets the records for a piece that is about to leave: kCopying where the mover must copy the bytes, else
// what the chunk is on the GPU. `hashes`: of the chunks. `trusts`: whether the mover may trust that a
// segment holds what it copied there; called only where that decides.
using SegmentTrust = std::function<bool(const Segment* segment)>;
void PlanCopyOut(HostCopy& copy, std::span<const ChunkHash> hashes, const HashKey& key,
                 const SegmentTrust& trusts);
// Sets the records so that the mover copies the whole piece, and forgets what it knew of the chunks.
void PlanWholeCopy(HostCopy& copy);

// The copies between a piece at this address and its host copy. Out: the chunks that differ. In: all chunks;
// a chunk of zeros has no host address.
std::vector<Copy> CopiesOut(driver::abi::CUdeviceptr device, const HostCopy& copy);
std::vector<Copy> CopiesIn(driver::abi::CUdeviceptr device, const HostCopy& copy);
std::uint64_t BytesOf(std::span<const Copy> copies);

// A chunk of a piece that CopiesOut leaves out.
struct SkippedChunk {
  std::size_t chunk = 0;
  Copy copy;          // its place on the GPU, and in host memory
  bool zero = false;  // it is taken for zeros; else host memory is to have its bytes
};
std::vector<SkippedChunk> SkippedChunks(driver::abi::CUdeviceptr device, const HostCopy& copy);

// Call it when the copies out are made and the piece is the mover's: the copied chunks become kHeld.
void Confirm(HostCopy& copy);
std::vector<bool> ZerosOf(const HostCopy& copy);  // by chunk
std::uint64_t ZeroBytes(const HostCopy& copy);
// Whether the copy can save the mover anything when the piece leaves again.
bool IsWorthKeeping(const HostCopy& copy);

}  // namespace gpuman::mover
