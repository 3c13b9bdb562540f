#include "shim/backing/stream_pools.h"

#include "ledger/wire/orders.h"
#include "shim/accounting/meter.h"
#include "shim/accounting/pools.h"
#include "shim/backing/backing.h"
#include "shim/backing/backing_state.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;
using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

bool IsPlain(const CUmemPoolProps& props) {
  return props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED && props.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
         props.location.type == CU_MEM_LOCATION_TYPE_DEVICE && props.win32SecurityAttributes == nullptr &&
         props.maxSize == 0 && props.usage == 0 && props.gpuDirectRDMACapable == 0;
}

std::uint64_t ReleaseUnused(AccountingState& state, int device) {
  return ReleaseSegmentsOn(static_cast<BackingState&>(state), device);
}

std::uint64_t UnusedBytes(const AccountingState& state, int device) {
  std::uint64_t unused = 0;
  for (const StreamPool& pool : static_cast<const BackingState&>(state).streams.pool)
    if (pool.known && pool.device == device) unused += pool.blocks.reserved() - pool.blocks.used();
  return unused;
}

StreamPool* Enter(BackingState& state, CUmemoryPool handle, int device) {
  state.release_unused = ReleaseUnused;
  state.unused_bytes = UnusedBytes;
  for (StreamPool& pool : state.streams.pool) {
    if (pool.known) continue;
    pool = {};
    pool.handle = handle;
    pool.device = device;
    pool.known = pool.serves = true;
    return &pool;
  }
  return nullptr;
}

void Recycle(BackingState& state, StreamPool& pool) {
  for (EventAfterFree spent{}; pool.blocks.TakeSpent(spent);) PutEvent(state, spent);
}

// Forgets a destroyed pool that has no memory left.
void ForgetEmpty(StreamPool& pool) {
  if (pool.handle != nullptr || pool.blocks.reserved() != 0) return;
  pool.blocks.Reset();
  pool = {};
}

std::uint64_t ThresholdOf(const StreamPool& pool) {
  auto* const ask = GPUMAN_REAL(cuMemPoolGetAttribute);
  cuuint64_t threshold = 0;
  if (pool.handle == nullptr || ask == nullptr ||
      ask(pool.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) != CUDA_SUCCESS)
    return 0;
  return threshold;
}

}  // namespace

void ServePool(BackingState& state, CUmemoryPool handle, const CUmemPoolProps& props) {
  PoolDestroyed(state, handle);  // an earlier pool that had the handle
  if (IsPlain(props) && IsBacked(state)) Enter(state, handle, props.location.id);
}

StreamPool* KnownPool(BackingState& state, CUmemoryPool handle) {
  for (StreamPool& pool : state.streams.pool) {
    if (pool.known && handle != nullptr && pool.handle == handle) return &pool;
  }
  return nullptr;
}

StreamPool* ServingPool(BackingState& state, CUmemoryPool handle, int device) {
  StreamPool* pool = KnownPool(state, handle);
  if (pool == nullptr) {
    auto* const ask = GPUMAN_REAL(cuDeviceGetDefaultMemPool);
    CUmemoryPool its = nullptr;
    if (ask == nullptr || ask(&its, device) != CUDA_SUCCESS || its != handle || !IsBackedOn(state, device))
      return nullptr;
    pool = Enter(state, handle, device);
  }
  return pool != nullptr && pool->serves && pool->device == device && IsBackedOn(state, device) ? pool
                                                                                                : nullptr;
}

void OpenPoolTo(BackingState& state, CUmemoryPool handle, const CUmemAccessDesc* access, std::size_t count) {
  StreamPool* const pool = KnownPool(state, handle);
  if (pool == nullptr) return;
  std::uint64_t readers = 0, writers = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const CUmemLocation& where = access[i].location;
    if (where.type != CU_MEM_LOCATION_TYPE_DEVICE || where.id == pool->device || where.id < 0 ||
        where.id >= kMaxDevices || access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
      continue;
    readers |= DeviceBit(where.id);
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) writers |= DeviceBit(where.id);
  }
  if (readers == 0) return;
  pool->serves = false;
  OpenSegments(state, static_cast<unsigned>(pool - state.streams.pool) + 1, readers, writers);
}

void PoolDestroyed(BackingState& state, CUmemoryPool handle) {
  StreamPool* const pool = KnownPool(state, handle);
  if (pool == nullptr) return;
  const RelaxedCapture relaxed;
  pool->handle = nullptr;
  pool->serves = false;
  CheckEvents(state, *pool);
  ReleaseSegments(state, *pool, 0);
}

CUresult AddSegment(BackingState& state, StreamPool& pool, std::uint64_t bytes, std::uint64_t granule) {
  std::uint64_t address = 0;
  const auto number = static_cast<unsigned>(&pool - state.streams.pool) + 1;
  const CUresult result = MakeSegment(state, {pool.device, 0, granule}, number, bytes, address);
  if (result != CUDA_SUCCESS) return result;
  if (!pool.blocks.AddSegment(address, bytes)) {
    GiveUpSegment(state, address);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (pool.blocks.reserved() > pool.reserved_high) pool.reserved_high = pool.blocks.reserved();
  wire::Store(state.streams.any, 1);
  return CUDA_SUCCESS;
}

void CheckEvents(BackingState& state, StreamPool& pool) {
  auto* const query = GPUMAN_REAL(cuEventQuery);
  if (query == nullptr || pool.blocks.pending() == 0) return;
  pool.blocks.CheckEvents([&](const EventAfterFree& behind) {
    return query(reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(behind.event))) == CUDA_SUCCESS;
  });
  Recycle(state, pool);
}

std::uint64_t ReleaseSegments(BackingState& state, StreamPool& pool, std::uint64_t keep) {
  std::uint64_t released = 0;
  while (pool.blocks.reserved() > keep) {
    std::uint64_t bytes = 0;
    const std::uint64_t address = pool.blocks.TakeIdle(bytes);
    if (address == 0) break;
    GiveUpSegment(state, address);
    GiveBack(state, pool.device, MemoryKind::kPool, bytes);
    released += bytes;
  }
  Recycle(state, pool);
  ForgetEmpty(pool);
  return released;
}

std::uint64_t ReleaseSegmentsOn(BackingState& state, int device) {
  std::uint64_t released = 0;
  for (StreamPool& pool : state.streams.pool) {
    if (!pool.known || pool.device != device || pool.blocks.reserved() == pool.blocks.used()) continue;
    CheckEvents(state, pool);
    released += ReleaseSegments(state, pool, 0);
  }
  return released;
}

bool HasPendingFrees(BackingState& state, int device) {
  bool any = false;
  for (const StreamPool& pool : state.streams.pool)
    any = any || (pool.known && pool.device == device && pool.blocks.pending() != 0);
  return any;
}

void ReleaseAfterWait(BackingState& state) {
  for (StreamPool& pool : state.streams.pool) {
    if (!pool.known || pool.blocks.reserved() == pool.blocks.used()) continue;
    const RelaxedCapture relaxed;
    const std::uint64_t threshold = ThresholdOf(pool);
    if (pool.blocks.reserved() <= threshold) continue;
    CheckEvents(state, pool);
    ReleaseSegments(state, pool, threshold);
  }
}

bool TrimForOthers(BackingState& state, int device) {
  if (!IsBacked(state)) return false;
  {
    const Locked lock(state.pools);
    if (TrimPools(state, device)) return true;
    if (!HasPendingFrees(state, device)) return false;
  }
  const RelaxedCapture relaxed;
  AllocationTarget where{};
  if (wire::Load(state.captures) != 0 || !CurrentWhere(state, where) ||
      SynchronizeContext(where.context) != CUDA_SUCCESS)
    return false;
  const Locked lock(state.pools);
  return TrimPools(state, device);
}

EventAfterFree TakeEvent(BackingState& state, std::uint64_t context) {
  StreamPoolsState& streams = state.streams;
  for (unsigned i = streams.events; i-- > 0;) {
    if (streams.event[i].context != context) continue;
    const EventAfterFree taken = streams.event[i];
    streams.event[i] = streams.event[--streams.events];
    return taken;
  }
  auto* const create = GPUMAN_REAL(cuEventCreate);
  auto* const push = GPUMAN_REAL(cuCtxPushCurrent_v2);
  auto* const pop = GPUMAN_REAL(cuCtxPopCurrent_v2);
  CUcontext of = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(context));
  if (create == nullptr || push == nullptr || pop == nullptr || push(of) != CUDA_SUCCESS) return {};
  const RelaxedCapture relaxed;
  CUevent event = nullptr;
  const CUresult made = create(&event, CU_EVENT_DISABLE_TIMING);
  pop(&of);
  return made == CUDA_SUCCESS ? EventAfterFree{reinterpret_cast<std::uintptr_t>(event), context}
                              : EventAfterFree{};
}

void PutEvent(BackingState& state, const EventAfterFree& behind) {
  StreamPoolsState& streams = state.streams;
  if (streams.events < StreamPoolsState::kMaxEvents) {
    streams.event[streams.events++] = behind;
    return;
  }
  if (auto* const destroy = GPUMAN_REAL(cuEventDestroy_v2))
    destroy(reinterpret_cast<CUevent>(static_cast<std::uintptr_t>(behind.event)));
}

void PoolsWithoutContext(BackingState& state, std::uint64_t context) {
  StreamPoolsState& streams = state.streams;
  if (wire::Load(streams.any) == 0) return;
  const Locked lock(state.pools);
  for (StreamPool& pool : streams.pool) {
    if (!pool.known) continue;
    Recycle(state, pool);
    pool.blocks.CheckEvents([&](const EventAfterFree& behind) { return behind.context == context; });
    Recycle(state, pool);
  }
  for (unsigned i = streams.events; i-- > 0;) {
    if (streams.event[i].context == context) streams.event[i] = streams.event[--streams.events];
  }
}

}  // namespace gpuman::shim
