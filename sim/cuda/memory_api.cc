// Device memory: plain, pitched, managed.
#include <bit>
#include <shared_mutex>

#include "sim/cuda/api.h"
#include "sim/cuda/memory.h"

namespace gpuman::sim::cuda {
namespace {

constexpr std::uint64_t kPitchStep = 512;  // measured

// Whether all of the range is managed.
bool IsManaged(Driver& driver, CUdeviceptr pointer, std::size_t bytes) {
  const auto allocation = driver.memory.FindAllocation(pointer);
  return allocation && allocation->kind == MemoryKind::kManaged && bytes > 0 &&
         bytes <= allocation->end() - pointer;
}

CUresult Advise(const char* function, CUdeviceptr pointer, std::size_t count, CUmem_advise advice,
                CUmemLocation location) {
  const Call call(function);
  if (!call) return call.error();
  if (!IsManaged(call.driver(), pointer, count) || advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
      advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && call.driver().FindDevice(location.id) == nullptr
             ? CUDA_ERROR_INVALID_DEVICE
             : CUDA_SUCCESS;
}

CUresult Prefetch(const char* function, CUdeviceptr pointer, std::size_t count, CUmemLocation location,
                  CUstream stream) {
  const Call call(function);
  if (!call) return call.error();
  if (!IsManaged(call.driver(), pointer, count)) return CUDA_ERROR_INVALID_VALUE;
  const bool to_device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  Device* const device = to_device ? call.driver().FindDevice(location.id) : nullptr;
  if (to_device && device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const StreamReference on = ResolveStream(call, stream);
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  return on.context->Enqueue(on.stream, CU_GRAPH_NODE_TYPE_EMPTY,
                             [&driver = call.driver(), pointer, count, device] {
                               const std::shared_lock execution(driver.execution);
                               if (driver.memory.Check(pointer, count, true) == AddressSpace::Lookup::kGood)
                                 MoveManaged(driver, pointer, count, device);
                             });
}

CUmemLocation LocationOf(CUdevice device) {
  return device == CU_DEVICE_CPU ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0}
                                 : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device};
}

}  // namespace

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const Call call(__func__);
  if (!call) return call.error();
  if (free != nullptr) *free = call.device().Free();
  if (total != nullptr) *total = call.device().Capacity();
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AllocateDevice(call.driver(), call.context(), bytes, *pointer);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* pointer, size_t* pitch, size_t width_in_bytes, size_t height,
                            unsigned int element_size_bytes) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  if (pointer == nullptr || pitch == nullptr || width_in_bytes == 0 || height == 0 ||
      (element_size_bytes != 4 && element_size_bytes != 8 && element_size_bytes != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::size_t bytes = 0;
  if (width_in_bytes > ~std::size_t{0} - kPitchStep ||
      __builtin_mul_overflow(RoundUp(width_in_bytes, kPitchStep), height, &bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult allocated = AllocateDevice(call.driver(), call.context(), bytes, *pointer);
  if (allocated == CUDA_SUCCESS) *pitch = RoundUp(width_in_bytes, kPitchStep);
  return allocated;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  const Call call(__func__, Need::kHealthy);  // needs no current context (measured)
  if (!call) return call.error();
  if (call.driver().CaptureForbids(ThreadCaptureMode())) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return pointer == 0 ? CUDA_SUCCESS : FreeDevice(call.driver(), pointer);
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr pointer) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto allocation = call.driver().memory.FindAllocation(pointer);
  if (!allocation) return CUDA_ERROR_NOT_FOUND;
  if (allocation->kind == MemoryKind::kVirtual) {
    const auto block = call.driver().memory.FindBlock(pointer);
    if (!block || block->readers == 0) return CUDA_ERROR_NOT_FOUND;  // measured: not before access is set
  }
  if (base != nullptr) *base = allocation->begin;
  if (size != nullptr) *size = allocation->size;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned int flags) {
  const Call call(__func__, Need::kContextUncaught);
  if (!call) return call.error();
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AllocateManaged(call.driver(), call.context(), bytes, flags, *pointer);
}

CUresult cuMemPrefetchAsync(CUdeviceptr dev_ptr, size_t count, CUdevice dst, CUstream stream) {
  return Prefetch(__func__, dev_ptr, count, LocationOf(dst), stream);
}
CUresult cuMemPrefetchAsync_v2(CUdeviceptr dev_ptr, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream stream) {
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : Prefetch(__func__, dev_ptr, count, location, stream);
}
CUresult cuMemAdvise(CUdeviceptr dev_ptr, size_t count, CUmem_advise advice, CUdevice device) {
  return Advise(__func__, dev_ptr, count, advice, LocationOf(device));
}
CUresult cuMemAdvise_v2(CUdeviceptr dev_ptr, size_t count, CUmem_advise advice, CUmemLocation location) {
  return Advise(__func__, dev_ptr, count, advice, location);
}

CUresult cuMemRangeGetAttribute(void* data, size_t data_size, CUmem_range_attribute attribute,
                                CUdeviceptr dev_ptr, size_t count) {
  const Call call(__func__);
  if (!call) return call.error();
  if (data == nullptr || data_size < sizeof(int) || !IsManaged(call.driver(), dev_ptr, count) ||
      attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *static_cast<int*>(data) = attribute == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? 0 : CU_DEVICE_INVALID;
  return CUDA_SUCCESS;
}
CUresult cuMemRangeGetAttributes(void** data, size_t* data_sizes, CUmem_range_attribute* attributes,
                                 size_t num_attributes, CUdeviceptr dev_ptr, size_t count) {
  if (data == nullptr || data_sizes == nullptr || attributes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < num_attributes; ++i) {
    const CUresult got = cuMemRangeGetAttribute(data[i], data_sizes[i], attributes[i], dev_ptr, count);
    if (got != CUDA_SUCCESS) return got;
  }
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
