// Stream-ordered memory, and the waits after which pools give memory back.
#include "shim/hooks.h"
#include "shim/meter.h"
#include "shim/pools.h"

namespace gpuman::shim {
namespace {

bool IsCapturing(CUstream stream) {
  auto* const ask = GPUMAN_REAL(cuStreamIsCapturing);
  CUstreamCaptureStatus status{};
  return ask == nullptr || ask(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// The device of the stream.
bool WhereOf(Guest& guest, CUstream stream, Where& where) {
  if (!CurrentWhere(guest, where)) return false;
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return true;
  auto* const ask = GPUMAN_REAL(cuStreamGetCtx);
  CUcontext context = nullptr;
  if (ask == nullptr || ask(stream, &context) != CUDA_SUCCESS) return false;
  const std::uint64_t number = reinterpret_cast<std::uintptr_t>(context);
  if (number == where.context) return true;
  const Locked lock(guest.contexts);
  const Context* const known = guest.context.Find(number);
  if (known == nullptr) return false;
  where = {known->device, number, GranuleOf(guest, known->device)};
  return where.granule != 0;
}

// Where the bytes came from; null where the driver does not tell.
CUmemoryPool PoolOf(CUdeviceptr pointer) {
  auto* const ask = GPUMAN_REAL(cuPointerGetAttribute);
  CUmemoryPool pool = nullptr;
  if (ask == nullptr || ask(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer) != CUDA_SUCCESS)
    return nullptr;
  return pool;
}

CUmemoryPool CurrentPool(int device) {
  auto* const ask = GPUMAN_REAL(cuDeviceGetMemPool);
  CUmemoryPool pool = nullptr;
  return ask != nullptr && ask(&pool, device) == CUDA_SUCCESS ? pool : nullptr;
}

// One thread at a time allocates from pools: what a pool has grown by is then the one allocation's doing.
// `queried` is the stream as calls without the per-thread default name it; `free` gives the memory back.
template <typename Allocate, typename Free>
CUresult AllocateFromPool(CUdeviceptr* pointer, std::uint64_t bytes, CUmemoryPool pool, CUstream queried,
                          Allocate allocate, Free free) {
  const Visit visit;
  Where where{};
  // Captured, it is a node of a graph: the graph takes memory when it runs.
  if (!visit || pointer == nullptr || bytes == 0 || IsCapturing(queried) || !WhereOf(*visit, queried, where))
    return allocate();
  const Locked lock((*visit).pools);
  std::uint64_t reserved = RoundUp(bytes, kPoolPiece);
  if (!ReserveWithPools(*visit, where.device, reserved)) {
    // What the pool has already needs no more of the device.
    reserved = 0;
    if (pool == nullptr) pool = CurrentPool(where.device);
    if (pool == nullptr || !HasRoom(pool, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUdeviceptr before = *pointer;
  const CUresult result = allocate();
  if (result != CUDA_SUCCESS) {
    GiveBack(*visit, where.device, reserved);
    RefreshPools(*visit);
    return result;
  }
  const CUmemoryPool source = PoolOf(*pointer);
  if (source == nullptr || SettlePool(*visit, source, where.device, reserved)) return CUDA_SUCCESS;
  free(*pointer);
  RefreshPools(*visit);
  *pointer = before;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUstream PerThread(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

// After a wait: pools may have less now.
CUresult Waited(CUresult result) {
  const Visit visit;
  if (!visit || !__atomic_load_n(&(*visit).pools_used, __ATOMIC_ACQUIRE)) return result;
  const Locked lock((*visit).pools);
  RefreshPools(*visit);
  return result;
}

}  // namespace

namespace hook {

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  auto* const real = GPUMAN_REAL(cuMemAllocAsync);
  auto* const free = GPUMAN_REAL(cuMemFreeAsync);
  if (real == nullptr || free == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateFromPool(
      pointer, bytes, nullptr, stream, [&] { return real(pointer, bytes, stream); },
      [&](CUdeviceptr address) { free(address, stream); });
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  auto* const real = GPUMAN_REAL_TWIN(cuMemAllocAsync, _ptsz);
  auto* const free = GPUMAN_REAL_TWIN(cuMemFreeAsync, _ptsz);
  if (real == nullptr || free == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateFromPool(
      pointer, bytes, nullptr, PerThread(stream), [&] { return real(pointer, bytes, stream); },
      [&](CUdeviceptr address) { free(address, stream); });
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  auto* const real = GPUMAN_REAL(cuMemAllocFromPoolAsync);
  auto* const free = GPUMAN_REAL(cuMemFreeAsync);
  if (real == nullptr || free == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateFromPool(
      pointer, bytes, pool, stream, [&] { return real(pointer, bytes, pool, stream); },
      [&](CUdeviceptr address) { free(address, stream); });
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
  auto* const real = GPUMAN_REAL_TWIN(cuMemAllocFromPoolAsync, _ptsz);
  auto* const free = GPUMAN_REAL_TWIN(cuMemFreeAsync, _ptsz);
  if (real == nullptr || free == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return AllocateFromPool(
      pointer, bytes, pool, PerThread(stream), [&] { return real(pointer, bytes, pool, stream); },
      [&](CUdeviceptr address) { free(address, stream); });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  auto* const real = GPUMAN_REAL(cuMemPoolDestroy);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const Visit visit;
  if (!visit) return real(pool);
  const Locked lock((*visit).pools);
  const bool known = (*visit).pool.Find(reinterpret_cast<std::uintptr_t>(pool)) != nullptr;
  const std::uint64_t in_use = known ? UsedOf(pool) : 0;
  const CUresult result = real(pool);
  if (known && result == CUDA_SUCCESS) ForgetPool(*visit, pool, in_use);
  return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep) {
  auto* const real = GPUMAN_REAL(cuMemPoolTrimTo);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : Waited(real(pool, min_bytes_to_keep));
}

CUresult cuCtxSynchronize() {
  auto* const real = GPUMAN_REAL(cuCtxSynchronize);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : Waited(real());
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
