// Stream-ordered memory and its pools.
#include "sim/cuda/api.h"
#include "sim/cuda/pool.h"

namespace gpuman::sim::cuda {
namespace {

CUresult Allocate(const char* function, CUdeviceptr* pointer, std::size_t bytes, const CUmemoryPool* from,
                  CUstream stream) {
  const Call call(function);
  if (!call) return call.error();
  const StreamReference on = ResolveStream(call, stream);
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (on.context->CaptureOf(on.stream) != nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;  // graphs here have no allocation nodes
  MemoryPool* pool = call.driver().current_pool(on.context->device());
  std::shared_ptr<MemoryPool> named;
  if (from != nullptr) {
    named = call.driver().pools.Find(*from);
    if (named == nullptr) return CUDA_ERROR_INVALID_VALUE;
    pool = named.get();
  }
  if (bytes == 0) {  // measured: succeeds
    *pointer = 0;
    return CUDA_SUCCESS;
  }
  return pool->Allocate(*on.context, bytes, *pointer);
}

// Queries and trims are forbidden while a stream is captured (measured).
enum class WhileCapturing { kAllowed, kForbidden };

struct PoolCall {
  PoolCall(const char* function, CUmemoryPool handle, WhileCapturing rule = WhileCapturing::kAllowed)
      : call(function, Need::kHealthy) {
    pool = call ? call.driver().pools.Find(handle) : nullptr;
    error = !call ? call.error() : pool == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (error == CUDA_SUCCESS && rule == WhileCapturing::kForbidden &&
        call.driver().CaptureForbids(ThreadCaptureMode()))
      error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  Call call;
  std::shared_ptr<MemoryPool> pool;
  CUresult error;
};

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, CUstream stream) {
  return Allocate(__func__, pointer, bytes, nullptr, stream);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return Allocate(__func__, pointer, bytes, &pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
  const Call call(__func__);
  if (!call) return call.error();
  const StreamReference on = ResolveStream(call, stream);
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  if (pointer == 0) return CUDA_SUCCESS;
  Driver& driver = call.driver();
  const auto allocation = driver.memory.FindAllocation(pointer);
  if (!allocation || allocation->begin != pointer) return CUDA_ERROR_INVALID_VALUE;
  if (allocation->kind != MemoryKind::kPool) {
    // This call may also free plain memory (measured); that is not worth a queue.
    on.context->Synchronize();
    return cuMemFree_v2(pointer);
  }
  Mark mark;
  const CUresult queued = on.context->Enqueue(
      on.stream, CU_GRAPH_NODE_TYPE_MEM_FREE,
      [&driver, pointer] {
        const auto taken = driver.memory.TakeAllocation(pointer);
        if (taken && taken->pool != nullptr) taken->pool->Give(pointer, taken->size);
      },
      &mark);
  if (queued == CUDA_SUCCESS) allocation->pool->AddPendingFree(std::move(mark), allocation->size);
  return queued;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* pool_props) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (pool == nullptr || pool_props == nullptr || pool_props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;  // CUDA 13 has managed pools
  const CUmemLocationType type = pool_props->location.type;
  const bool on_host = type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if (!on_host && type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (pool_props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  Device* const device = call.driver().FindDevice(on_host ? 0 : pool_props->location.id);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const auto location = on_host ? MemoryPool::Location::kHost : MemoryPool::Location::kDevice;
  *pool = call.driver().pools.Add(std::make_shared<MemoryPool>(call.driver(), *device, false, location));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const PoolCall call(__func__, pool);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (call.pool->is_default()) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = call.call.driver();
  if (driver.current_pool(call.pool->device()) == call.pool.get()) {
    driver.set_current_pool(call.pool->device(), &driver.default_pool(call.pool->device()));
  }
  driver.pools.Take(pool);
  driver.KeepForever(call.pool);  // the program may still hold allocations of the pool
  call.pool->Destroy();
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t min_bytes_to_keep) {
  const PoolCall call(__func__, pool, WhileCapturing::kForbidden);
  if (call.error != CUDA_SUCCESS) return call.error;
  call.pool->TrimTo(min_bytes_to_keep);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  const PoolCall call(__func__, pool);
  if (call.error != CUDA_SUCCESS) return call.error;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : call.pool->SetAttribute(attr, value);
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  const PoolCall call(__func__, pool, WhileCapturing::kForbidden);
  if (call.error != CUDA_SUCCESS) return call.error;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : call.pool->GetAttribute(attr, value);
}
// Peer access to pools is not simulated: only the owner has access.
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  const PoolCall call(__func__, pool);
  if (call.error != CUDA_SUCCESS) return call.error;
  for (std::size_t i = 0; i < count; ++i) {
    if (map == nullptr || map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_INVALID_VALUE;
    if (map[i].location.id != call.pool->device().ordinal()) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool mem_pool, CUmemLocation* location) {
  const PoolCall call(__func__, mem_pool);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool own =
      location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == call.pool->device().ordinal();
  *flags = own ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice device) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  Device* const found = call.driver().FindDevice(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (pool_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool_out = reinterpret_cast<CUmemoryPool>(&call.driver().default_pool(*found));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  Device* const found = call.driver().FindDevice(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = reinterpret_cast<CUmemoryPool>(call.driver().current_pool(*found));
  return CUDA_SUCCESS;
}
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  const PoolCall call(__func__, pool);
  if (call.error != CUDA_SUCCESS) return call.error;
  Device* const found = call.call.driver().FindDevice(device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (&call.pool->device() != found || call.pool->is_on_host()) return CUDA_ERROR_INVALID_VALUE;
  call.call.driver().set_current_pool(*found, call.pool.get());
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
