#include "shim/eviction.h"

#include "shim/backing.h"
#include "shim/driver.h"
#include "shim/some_context.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // the vendor's names
using wire::Trouble;

enum class Direction { kOut, kIn };

constexpr unsigned kStreams = 2;  // while one copy ends the next has begun

std::uint64_t BytesBacked(Guest& guest) {
  const Locked lock(guest.books);
  return guest.regions.bytes();
}

bool WaitForCaptures(Guest& guest, std::uint64_t deadline) {
  constexpr int kLookEveryMs = 5;
  for (;;) {
    const std::uint32_t captures = wire::Load(guest.captures);
    if (captures == 0) return true;
    if (NowNs() >= deadline) return false;
    wire::WaitOn(guest.captures, captures, kLookEveryMs);
  }
}

// All slices, each to its place. For who has a context current.
CUresult CopyAll(Guest& guest, Direction direction) {
  auto* const create = GPUMAN_REAL(cuStreamCreate);
  auto* const destroy = GPUMAN_REAL(cuStreamDestroy_v2);
  auto* const synchronize = GPUMAN_REAL(cuStreamSynchronize);
  auto* const out = GPUMAN_REAL(cuMemcpyDtoHAsync_v2);
  auto* const in = GPUMAN_REAL(cuMemcpyHtoDAsync_v2);
  if (create == nullptr || destroy == nullptr || synchronize == nullptr || out == nullptr || in == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  CUstream streams[kStreams] = {};
  CUresult result = CUDA_SUCCESS;
  for (CUstream& stream : streams) {
    if (result == CUDA_SUCCESS) result = create(&stream, CU_STREAM_NON_BLOCKING);
  }
  unsigned next = 0;
  if (result == CUDA_SUCCESS) {
    guest.regions.ForEachSlice([&](const Slice& slice) {
      std::uint8_t* const host = guest.arena.base + slice.host;
      CUstream const stream = streams[next++ % kStreams];
      result = direction == Direction::kOut ? out(host, slice.address, slice.bytes, stream)
                                            : in(slice.address, host, slice.bytes, stream);
      return result == CUDA_SUCCESS;
    });
  }
  for (CUstream const stream : streams) {
    if (stream == nullptr) continue;
    const CUresult done = synchronize(stream);
    if (result == CUDA_SUCCESS) result = done;
    destroy(stream);
  }
  return result;
}

std::uint64_t UnmapAll(Guest& guest) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < guest.regions.size(); ++i) bytes += UnmapRegion(guest, guest.regions.at(i));
  return bytes;
}

// With the gate closed and nothing in flight.
Ended CopyOut(Guest& guest, std::uint64_t deadline, std::uint64_t& evicted) {
  const Trouble room = GrowArena(guest, guest.regions.bytes(), CopyThreads());
  if (room != Trouble::kNone) return {room, CUDA_SUCCESS};
  CUresult result = CUDA_SUCCESS;
  switch (DrainContexts(guest, deadline, result)) {
    case Drained::kYes:
      break;
    case Drained::kTooLong:
      return {Trouble::kBusy, CUDA_SUCCESS};
    case Drained::kFailed:
      return {Trouble::kDriver, result};
  }
  if (guest.regions.size() == 0) return {};
  const InSomeContext context(guest);
  if (!context) return {Trouble::kDriver, CUDA_ERROR_INVALID_CONTEXT};
  result = CopyAll(guest, Direction::kOut);
  if (result != CUDA_SUCCESS) return {Trouble::kDriver, result};
  evicted = UnmapAll(guest);
  return {};
}

Trouble CloseOutsideCaptures(Guest& guest, std::uint64_t deadline) {
  for (;;) {
    // Who captures has to pass the gate to come to its end.
    if (!WaitForCaptures(guest, deadline)) return Trouble::kCapturing;
    if (!CloseGate(guest, deadline)) return Trouble::kBusy;
    if (wire::Load(guest.captures) == 0) return Trouble::kNone;
    OpenGate(guest);
  }
}

bool DriverHasFailed() {
  auto* const synchronize = GPUMAN_REAL(cuCtxSynchronize);
  return synchronize == nullptr || synchronize() != CUDA_SUCCESS;
}

}  // namespace

Ended Evict(Guest& guest, std::uint64_t deadline, std::uint64_t& evicted) {
  evicted = 0;
  // Most of the host's memory comes while the program goes on.
  const Trouble room = GrowArena(guest, BytesBacked(guest), CopyThreads());
  if (room != Trouble::kNone) return {room, CUDA_SUCCESS};
  const Trouble closed = CloseOutsideCaptures(guest, deadline);
  if (closed != Trouble::kNone) return {closed, CUDA_SUCCESS};
  const Ended ended = CopyOut(guest, deadline, evicted);
  if (ended.trouble != Trouble::kNone) OpenGate(guest);
  return ended;
}

Ended Restore(Guest& guest) {
  if (guest.regions.size() != 0) {
    const InSomeContext context(guest);
    if (!context) return {Trouble::kDriver, CUDA_ERROR_INVALID_CONTEXT};
    CUresult result = CUDA_SUCCESS;
    for (std::size_t i = 0; i < guest.regions.size() && result == CUDA_SUCCESS; ++i)
      result = MapRegion(guest, guest.regions.at(i));
    if (result == CUDA_SUCCESS) result = CopyAll(guest, Direction::kIn);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY && DriverHasFailed()) {
      OpenGate(guest);
      return {Trouble::kDriver, result, true};
    }
    if (result != CUDA_SUCCESS) {
      UnmapAll(guest);
      return {result == CUDA_ERROR_OUT_OF_MEMORY ? Trouble::kNoRoom : Trouble::kDriver, result};
    }
  }
  OpenGate(guest);
  return {};
}

}  // namespace gpuman::shim
