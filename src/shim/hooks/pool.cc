// Stream-ordered memory, and the waits after which pools give memory back.
#include "shim/accounting/meter.h"
#include "shim/accounting/pools.h"
#include "shim/accounting/trace_memory.h"
#include "shim/backing/stream_memory.h"
#include "shim/backing/stream_pools.h"
#include "shim/gate/activity.h"
#include "shim/gate/streams.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver_calls.h"

namespace gpuman::shim {
namespace {

// Returns the pool of the memory; null where the driver does not tell.
CUmemoryPool PoolOf(CUdeviceptr pointer) {
  auto* const ask = GPUMAN_REAL(cuPointerGetAttribute);
  CUmemoryPool pool = nullptr;
  if (ask == nullptr || ask(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer) != CUDA_SUCCESS)
    return nullptr;
  return pool;
}

// Waits for the frees of this stream: before that, pools cannot give their memory back. It waits for this
// stream only, since a wait for another stream could spoil a capture there.
bool WaitForFrees(CUstream stream) {
  const RelaxedCapture relaxed;
  auto* const wait = GPUMAN_REAL(cuStreamSynchronize);
  return wait != nullptr && !IsCapturing(stream) && wait(stream) == CUDA_SUCCESS;
}

// How an allocation is made and taken back.
template <typename Allocate, typename Free>
struct Source {
  CUmemoryPool pool;  // null: the current pool of the stream's device
  Allocate allocate;
  Free free;
};
template <typename Allocate, typename Free>
Source(CUmemoryPool, Allocate, Free) -> Source<Allocate, Free>;

// One thread at a time allocates from pools, so that the growth of a pool comes from one allocation.
// `refused`: the limit refuses; `full`: the device has no room, or the job has no room there for now.
template <typename Allocate, typename Free>
CUresult TryFromPool(ProcessState& state, int of_stream, CUdeviceptr* pointer, std::uint64_t bytes,
                     const Source<Allocate, Free>& source, bool& refused, bool& full) {
  const Locked lock(state.pools);
  const int device = source.pool != nullptr ? DeviceOfPool(state, source.pool, of_stream) : of_stream;
  refused = false;
  if (device == kNoDevice) return source.allocate();
  std::uint64_t reserved = 0;
  refused = !CoverGrowth(state, device, bytes, reserved);
  if (refused) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUmemoryPool asked = source.pool != nullptr ? source.pool : CurrentPool(device);
  const bool must_grow = reserved == 0 && (asked == nullptr || !HasUnused(asked, bytes));
  const CUdeviceptr before = *pointer;
  const bool room = reserved == 0 || IsWithinRoom(state, device);
  const CUresult result = room ? source.allocate() : CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    full = result == CUDA_ERROR_OUT_OF_MEMORY;
    Withdraw(state, device, reserved);
    RefreshPools(state);
    return result;
  }
  const CUmemoryPool pool = PoolOf(*pointer);
  const PoolGrowthResult grown = CommitPool(state, pool != nullptr ? pool : asked, device, reserved);
  // The headroom is for allocations that fit into a pool. Where no pool had room, the headroom is the last of
  // the room.
  if (grown == PoolGrowthResult::kCovered || (grown == PoolGrowthResult::kOnHeadroom && must_grow))
    return CUDA_SUCCESS;
  source.free(*pointer);
  *pointer = before;
  refused = true;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// `queried` is the stream as functions without the per-thread default stream name it.
template <typename Allocate, typename Free>
CUresult AllocateFromPool(CUdeviceptr* pointer, std::uint64_t bytes, CUstream queried,
                          const Source<Allocate, Free>& source) {
  const HookErrnoScope scope;
  AllocationTarget where{};
  // In a captured stream, the allocation is a node of a graph: the graph takes memory when it runs.
  if (!scope || pointer == nullptr || bytes == 0 || IsCapturing(queried) || !WhereOf(*scope, queried, where))
    return source.allocate();
  CUresult answer{};
  if (IsBacked(*scope)) {
    StartServiceThread(*scope);
    if (AllocateInOrder(*scope, {where, source.pool, queried, bytes}, pointer, answer)) {
      if (answer == CUDA_SUCCESS) NoteAllocated(*scope, where.device, *pointer, bytes);
      return answer;
    }
  }
  answer = WithRoom(*scope, where.device, bytes, [&](bool& full) {
    bool refused = false;
    const CUresult result = TryFromPool(*scope, where.device, pointer, bytes, source, refused, full);
    if (!refused || !WaitForFrees(queried)) return result;
    return TryFromPool(*scope, where.device, pointer, bytes, source, refused, full);
  });
  if (answer == CUDA_SUCCESS) NoteAllocated(*scope, where.device, *pointer, bytes);
  return answer;
}

// Counts again after a wait, since pools may have less now. Returns `result`.
CUresult Waited(CUresult result) {
  const HookErrnoScope scope;
  if (!scope) return result;
  const bool drivers = __atomic_load_n(&(*scope).pools_used, __ATOMIC_ACQUIRE);
  const bool own = __atomic_load_n(&(*scope).streams.any, __ATOMIC_ACQUIRE) != 0;
  if (!drivers && !own) return result;
  const Locked lock((*scope).pools);
  if (drivers) RefreshPools(*scope);
  if (own) ReleaseAfterWait(*scope);
  return result;
}

bool HasOneContext(ProcessState& state, int device) {
  const Locked lock(state.contexts);
  unsigned contexts = 0;
  state.context.ForEach([&](std::uint64_t, const Context& context) { contexts += context.device == device; });
  return contexts == 1;
}

// Waits for all work of the current context. Where the device has no other context, destroyed pools have no
// memory left after that.
template <typename Wait>
CUresult WaitForAll(Wait wait) {
  const HookErrnoScope scope;
  AllocationTarget where{};
  if (!scope || !__atomic_load_n(&(*scope).pools_used, __ATOMIC_ACQUIRE) || !CurrentWhere(*scope, where) ||
      !HasOneContext(*scope, where.device))
    return Waited(wait());
  std::uint64_t ending = 0;
  {
    const Locked lock((*scope).pools);
    ending = EndingOn(*scope, where.device);
  }
  const CUresult result = wait();
  if (ending != 0 && result == CUDA_SUCCESS) {
    const Locked lock((*scope).pools);
    GiveBackEnded(*scope, where.device, ending);
  }
  return Waited(result);
}

}  // namespace

namespace hook {

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  auto* const real = GPUMAN_REAL(cuMemAllocAsync);
  auto* const free = GPUMAN_REAL(cuMemFreeAsync);
  if (real == nullptr || free == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateFromPool(pointer, bytes, stream,
                          Source{CUmemoryPool{}, [&] { return real(pointer, bytes, stream); },
                                 [&](CUdeviceptr address) { free(address, stream); }});
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  auto* const real = GPUMAN_REAL_TWIN(cuMemAllocAsync, _ptsz);
  auto* const free = GPUMAN_REAL_TWIN(cuMemFreeAsync, _ptsz);
  if (real == nullptr || free == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateFromPool(pointer, bytes, PerThread(stream),
                          Source{CUmemoryPool{}, [&] { return real(pointer, bytes, stream); },
                                 [&](CUdeviceptr address) { free(address, stream); }});
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  auto* const real = GPUMAN_REAL(cuMemAllocFromPoolAsync);
  auto* const free = GPUMAN_REAL(cuMemFreeAsync);
  if (real == nullptr || free == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateFromPool(pointer, bytes, stream,
                          Source{pool, [&] { return real(pointer, bytes, pool, stream); },
                                 [&](CUdeviceptr address) { free(address, stream); }});
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
  auto* const real = GPUMAN_REAL_TWIN(cuMemAllocFromPoolAsync, _ptsz);
  auto* const free = GPUMAN_REAL_TWIN(cuMemFreeAsync, _ptsz);
  if (real == nullptr || free == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateFromPool(pointer, bytes, PerThread(stream),
                          Source{pool, [&] { return real(pointer, bytes, pool, stream); },
                                 [&](CUdeviceptr address) { free(address, stream); }});
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* pool_props) {
  auto* const real = GPUMAN_REAL(cuMemPoolCreate);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope || pool == nullptr || pool_props == nullptr) return real(pool, pool_props);
  const Locked lock((*scope).pools);
  const CUresult result = real(pool, pool_props);
  if (result != CUDA_SUCCESS) return result;
  PoolMade(*scope, *pool, pool_props->location);
  ServePool(*scope, *pool, *pool_props);
  return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  auto* const real = GPUMAN_REAL(cuMemPoolDestroy);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope) return real(pool);
  const Locked lock((*scope).pools);
  const DestroyedPool leaving = BeforeDestroy(*scope, pool);
  const CUresult result = real(pool);
  if (result != CUDA_SUCCESS) return result;
  AfterDestroy(*scope, pool, leaving);
  PoolDestroyed(*scope, pool);
  return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep) {
  auto* const real = GPUMAN_REAL(cuMemPoolTrimTo);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(pool, min_bytes_to_keep);
  if (const HookErrnoScope scope; scope && result == CUDA_SUCCESS) {
    const Locked lock((*scope).pools);
    if (StreamPool* const own = KnownPool(*scope, pool)) {
      const RelaxedCapture relaxed;
      CheckEvents(*scope, *own);
      ReleaseSegments(*scope, *own, min_bytes_to_keep);
    }
  }
  return Waited(result);
}

CUresult cuCtxSynchronize() {
  auto* const real = GPUMAN_REAL(cuCtxSynchronize);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : WaitForAll([&] { return real(); });
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  auto* const real = GPUMAN_REAL(cuCtxSynchronize_v2);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : Waited(real(context));
}

CUresult cuStreamSynchronize(CUstream stream) {
  auto* const real = GPUMAN_REAL(cuStreamSynchronize);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : Waited(real(stream));
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  auto* const real = GPUMAN_REAL_TWIN(cuStreamSynchronize, _ptsz);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : Waited(real(stream));
}

CUresult cuEventSynchronize(CUevent event) {
  auto* const real = GPUMAN_REAL(cuEventSynchronize);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : Waited(real(event));
}

}  // namespace hook

}  // namespace gpuman::shim
