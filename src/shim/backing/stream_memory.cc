#include "shim/backing/stream_memory.h"
#include "shim/gate/activity.h"

#include "ledger/wire/orders.h"
#include "shim/accounting/meter.h"
#include "shim/accounting/pools.h"
#include "shim/backing/stream_pools.h"
#include "shim/gate/streams.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

CUevent EventOf(const EventAfterFree& behind) {
  return reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(behind.event));
}

// An attempt at an allocation. The caller holds state.pools, except for the constructor.
class Trial {
 public:
  Trial(BackingState& state, const AsyncAllocRequest& request)
      : state_(state), request_(request), key_(KeyOf(request.where.context, request.stream)) {}

  // Returns null where the driver has to be asked.
  StreamPool* Pool() const {
    const CUmemoryPool pool = request_.pool != nullptr ? request_.pool : CurrentPool(request_.where.device);
    return ServingPool(state_, pool, request_.where.device);
  }

  bool Take(StreamPool& pool, std::uint64_t& address) const {
    if (!pool.blocks.Take(request_.bytes, key_, request_.where.context, address)) return false;
    NoteUse(pool);
    return true;
  }

  // Takes a block that may be used once other work is done. The stream waits for that work.
  bool TakeAfter(StreamPool& pool, FreedBy by, std::uint64_t& address) const {
    auto* const wait = GPUMAN_REAL(cuStreamWaitEvent);
    EventAfterFree behind{};
    const std::uint32_t found = pool.blocks.FindAfter(request_.bytes, key_, by, behind);
    if (found == 0 || wait == nullptr || wait(request_.stream, EventOf(behind), 0) != CUDA_SUCCESS)
      return false;
    pool.blocks.TakeAfter(found, request_.bytes, request_.where.context, address);
    NoteUse(pool);
    return address != 0;
  }

  // Makes more memory for the pool: a segment of the size of the driver's pieces, in which later requests
  // find room. Where there is no room for that, or where it is too small, the segment is as large as the
  // request.
  CUresult Grow(StreamPool& pool, bool& full) const {
    const std::uint64_t least = RoundUp(request_.bytes, request_.where.granule);
    const std::uint64_t usual = RoundUp(kPoolPiece, request_.where.granule);
    CUresult result = GrowBy(pool, least < usual ? usual : least, full);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && least < usual) result = GrowBy(pool, least, full);
    return result;
  }

 private:
  CUresult GrowBy(StreamPool& pool, std::uint64_t bytes, bool& full) const {
    const AllocationTarget& where = request_.where;
    full = false;
    if (bytes < request_.bytes || !ReserveWithPools(state_, where.device, bytes))
      return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (IsWithinRoom(state_, where.device)) {
      result = AddSegment(state_, pool, bytes, where.granule);
      if (result == CUDA_ERROR_OUT_OF_MEMORY && ReleaseSegmentsOn(state_, where.device) != 0)
        result = AddSegment(state_, pool, bytes, where.granule);
    }
    full = result == CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
      Granted(state_, where.device, MemoryKind::kPool, bytes);
    else
      Withdraw(state_, where.device, bytes);
    return result;
  }

  static void NoteUse(StreamPool& pool) {
    if (pool.blocks.used() > pool.used_high) pool.used_high = pool.blocks.used();
  }

  BackingState& state_;
  const AsyncAllocRequest& request_;
  const StreamKey key_;
};

// Tries the allocation without waiting. `full`: the device has no more memory, or the job may have no more
// for now.
CUresult Try(BackingState& state, const AsyncAllocRequest& request, CUdeviceptr* pointer, bool& full) {
  const Trial trial(state, request);
  const Locked lock(state.pools);
  StreamPool* const pool = trial.Pool();
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;  // the pool was destroyed meanwhile
  std::uint64_t address = 0;
  if (!trial.Take(*pool, address)) {
    const RelaxedCapture relaxed;
    CheckEvents(state, *pool);
    if (!trial.Take(*pool, address) && !trial.TakeAfter(*pool, FreedBy::kSameStream, address)) {
      const CUresult grown = trial.Grow(*pool, full);
      const bool taken = grown == CUDA_SUCCESS ? trial.Take(*pool, address)
                                               : trial.TakeAfter(*pool, FreedBy::kAnyStream, address);
      if (!taken) return grown == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : grown;
      full = false;
    }
  }
  *pointer = address;
  return CUDA_SUCCESS;
}

// Waits for frees in the stream or, with `of_all`, in its whole context. Returns false where there is nothing
// to wait for, or where no thread may wait now.
bool WaitForFrees(BackingState& state, const AsyncAllocRequest& request, bool of_all) {
  const RelaxedCapture relaxed;
  auto* const wait = GPUMAN_REAL(cuStreamSynchronize);
  if (!of_all) return wait != nullptr && !IsCapturing(request.stream) && wait(request.stream) == CUDA_SUCCESS;
  return wire::Load(state.captures) == 0 && SynchronizeContext(request.where.context) == CUDA_SUCCESS;
}

unsigned PoolAt(BackingState& state, CUdeviceptr pointer) {
  if (wire::Load(state.streams.any) == 0) return 0;
  const Locked lock(state.books);
  const Region* const known = state.regions.Find(pointer);
  return known != nullptr ? known->pool : 0;
}

}  // namespace

bool AllocateInOrder(BackingState& state, const AsyncAllocRequest& request, CUdeviceptr* pointer,
                     CUresult& result) {
  {
    const Trial trial(state, request);
    const Locked lock(state.pools);
    StreamPool* const pool = trial.Pool();
    if (pool == nullptr) return false;
    std::uint64_t address = 0;
    if (trial.Take(*pool, address)) {
      *pointer = address;
      result = CUDA_SUCCESS;
      return true;
    }
  }
  const std::uint64_t bytes = RoundUp(request.bytes, request.where.granule);
  result = WithRoom(state, request.where.device, bytes, [&](bool& full) {
    CUresult tried = Try(state, request, pointer, full);
    for (const bool of_all : {false, true}) {
      if (tried != CUDA_ERROR_OUT_OF_MEMORY || !WaitForFrees(state, request, of_all)) break;
      tried = Try(state, request, pointer, full);
    }
    return tried;
  });
  return true;
}

AsyncFreeResult FreeInOrder(BackingState& state, CUdeviceptr pointer, CUstream stream, CUresult& result) {
  const unsigned number = PoolAt(state, pointer);
  if (number == 0) return AsyncFreeResult::kNotOfPools;
  auto* const record = GPUMAN_REAL(cuEventRecord);
  AllocationTarget where{};
  if (record == nullptr || IsCapturing(stream) || !WhereOf(state, stream, where))
    return AsyncFreeResult::kDriver;
  const Locked lock(state.pools);
  StreamPool& pool = state.streams.pool[number - 1];
  if (!pool.blocks.IsInUse(pointer)) {
    result = CUDA_ERROR_INVALID_VALUE;
    return AsyncFreeResult::kDone;
  }
  const EventAfterFree behind = TakeEvent(state, where.context);
  result = behind.event != 0 ? record(EventOf(behind), stream) : CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS)
    pool.blocks.Free(pointer, KeyOf(where.context, stream), behind);
  else if (behind.event != 0)
    PutEvent(state, behind);
  for (EventAfterFree spent{}; pool.blocks.TakeSpent(spent);) PutEvent(state, spent);
  return AsyncFreeResult::kDone;
}

bool FreeOfPool(BackingState& state, unsigned number, CUdeviceptr pointer) {
  const Locked lock(state.pools);
  StreamPool& pool = state.streams.pool[number - 1];
  if (!pool.blocks.Free(pointer, {}, {})) return false;
  ReleaseAfterWait(state);
  return true;
}

bool FindInPool(BackingState& state, const Region& region, CUdeviceptr pointer, FoundAllocation& found) {
  const Locked lock(state.pools);
  StreamPool& pool = state.streams.pool[region.pool - 1];
  StreamBlockAllocator::Block block{};
  if (!pool.blocks.Find(region.address, pointer, block)) return false;
  constexpr std::uint64_t kOfPools = std::uint64_t{1} << 62;  // apart from the numbers of slabs
  found.region.address = block.address;
  found.region.size = block.size;
  found.region.context = block.context;
  found.number = kOfPools | std::uint64_t{region.pool} << 48 | block.number;
  found.handle = pool.handle;
  return true;
}

}  // namespace gpuman::shim
