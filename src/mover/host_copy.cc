#include "mover/host_copy.h"

#include <algorithm>
#include <utility>

namespace gpuman::mover {
namespace {

using State = ChunkRecord::State;

// Calls `use` for each part of the piece that lies in one extent, and that `cut` does not divide: with its
// place in the piece, the extent, its host address and its bytes.
template <typename Use>
void ForEachPart(const HostCopy& copy, std::uint64_t cut, Use use) {
  std::uint64_t in_piece = 0;
  for (const Extent& extent : copy.extents) {
    for (std::uint64_t in_extent = 0; in_extent < extent.bytes && in_piece < copy.bytes;) {
      const std::uint64_t bytes =
          std::min({cut - in_piece % cut, extent.bytes - in_extent, copy.bytes - in_piece});
      use(in_piece, extent, extent.at() + in_extent, bytes);
      in_piece += bytes;
      in_extent += bytes;
    }
  }
}

// Appends a copy, as a part of the one before it where both are neighbours.
void Append(std::vector<Copy>& copies, const Copy& copy) {
  if (!copies.empty()) {
    Copy& last = copies.back();
    const bool zeros = last.host == nullptr && copy.host == nullptr;
    const bool next = last.host != nullptr && static_cast<std::uint8_t*>(last.host) + last.bytes == copy.host;
    if (last.device + last.bytes == copy.device && (zeros || next)) {
      last.bytes += copy.bytes;
      return;
    }
  }
  copies.push_back(copy);
}

State StateAt(const HostCopy& copy, std::uint64_t in_piece) {
  const std::size_t chunk = in_piece / kChunk;
  return chunk < copy.chunks.size() ? copy.chunks[chunk].state : State::kUnknown;
}

}  // namespace

HostCopy EmptyCopy(std::uint64_t bytes, Extents extents) {
  return {bytes, std::move(extents), std::vector<ChunkRecord>(bytes / kChunk)};
}

void PlanCopyOut(HostCopy& copy, std::span<const ChunkHash> hashes, const HashKey& key,
                 const SegmentTrust& trusts) {
  ForEachPart(copy, kChunk, [&](std::uint64_t in_piece, const Extent& extent, std::uint8_t*, std::uint64_t) {
    if (in_piece / kChunk >= copy.chunks.size()) return;
    ChunkRecord& record = copy.chunks[in_piece / kChunk];
    const ChunkHash& hash = hashes[in_piece / kChunk];
    if (IsZero(key, hash))
      record = {State::kZero, hash};
    else if (record.state != State::kHeld || record.hash != hash || !trusts(extent.segment))
      record = {State::kCopying, hash};
  });
}

void PlanWholeCopy(HostCopy& copy) { copy.chunks.assign(copy.chunks.size(), {}); }

std::vector<Copy> CopiesOut(driver::abi::CUdeviceptr device, const HostCopy& copy) {
  std::vector<Copy> copies;
  ForEachPart(copy, kChunk,
              [&](std::uint64_t in_piece, const Extent&, std::uint8_t* host, std::uint64_t bytes) {
                const State state = StateAt(copy, in_piece);
                if (state != State::kHeld && state != State::kZero)
                  Append(copies, {device + in_piece, host, bytes});
              });
  return copies;
}

std::vector<SkippedChunk> SkippedChunks(driver::abi::CUdeviceptr device, const HostCopy& copy) {
  std::vector<SkippedChunk> chunks;
  ForEachPart(
      copy, kChunk, [&](std::uint64_t in_piece, const Extent&, std::uint8_t* host, std::uint64_t bytes) {
        const State state = StateAt(copy, in_piece);
        if (state == State::kHeld || state == State::kZero)
          chunks.push_back({in_piece / kChunk, {device + in_piece, host, bytes}, state == State::kZero});
      });
  return chunks;
}

std::vector<Copy> CopiesIn(driver::abi::CUdeviceptr device, const HostCopy& copy) {
  std::vector<Copy> copies;
  ForEachPart(copy, kChunk,
              [&](std::uint64_t in_piece, const Extent&, std::uint8_t* host, std::uint64_t bytes) {
                const bool zero = StateAt(copy, in_piece) == State::kZero;
                Append(copies, {device + in_piece, zero ? nullptr : host, bytes});
              });
  return copies;
}

std::uint64_t BytesOf(std::span<const Copy> copies) {
  std::uint64_t sum = 0;
  for (const Copy& copy : copies) sum += copy.bytes;
  return sum;
}

void Confirm(HostCopy& copy) {
  for (ChunkRecord& record : copy.chunks)
    if (record.state == State::kCopying) record.state = State::kHeld;
}

std::vector<bool> ZerosOf(const HostCopy& copy) {
  std::vector<bool> zeros;
  for (const ChunkRecord& record : copy.chunks) zeros.push_back(record.state == State::kZero);
  return zeros;
}

std::uint64_t ZeroBytes(const HostCopy& copy) {
  return kChunk *
         static_cast<std::uint64_t>(std::ranges::count(copy.chunks, State::kZero, &ChunkRecord::state));
}

bool IsWorthKeeping(const HostCopy& copy) {
  return std::ranges::any_of(copy.chunks, [](const ChunkRecord& one) { return one.state == State::kHeld; });
}

}  // namespace gpuman::mover
