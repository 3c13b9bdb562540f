// Attributes of pointers.
#include <cstring>
#include <span>

#include "sim/cuda/api.h"
#include "sim/cuda/pool.h"

namespace gpuman::sim::cuda {
namespace {

template <typename T>
CUresult Answer(void* data, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  std::memcpy(data, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

CUcontext ContextHandle(const Allocation& allocation) {
  // Memory of VMM and of pools belongs to a device, not to a context (measured).
  if (allocation.kind == MemoryKind::kVirtual || allocation.kind == MemoryKind::kPool) return nullptr;
  return reinterpret_cast<CUcontext>(allocation.context);
}

CUresult Describe(Driver& driver, const Allocation& allocation, CUpointer_attribute attribute,
                  CUdeviceptr pointer, void* data) {
  const bool host = IsHostKind(allocation.kind);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Answer(data, ContextHandle(allocation));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Answer(data, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Answer(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && allocation.kind != MemoryKind::kManaged) return CUDA_ERROR_INVALID_VALUE;
      return Answer(data, pointer);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Answer(data, static_cast<unsigned long long>(allocation.id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Answer(data, static_cast<unsigned>(allocation.kind == MemoryKind::kManaged));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Answer(data, allocation.device->ordinal());
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Answer(data, static_cast<unsigned>(allocation.kind == MemoryKind::kDevice));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Answer(data, CUdeviceptr{allocation.begin});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Answer(data, std::size_t{allocation.size});
    case CU_POINTER_ATTRIBUTE_MAPPED: {
      const auto block = driver.memory.FindBlock(pointer);
      return Answer(data, static_cast<unsigned>(block.has_value()));
    }
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Answer(data, 0ull);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Answer(data, 3);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Answer(data, reinterpret_cast<CUmemoryPool>(allocation.pool));
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto allocation = call.driver().memory.FindAllocation(ptr);
  return allocation ? Describe(call.driver(), *allocation, attribute, ptr, data) : CUDA_ERROR_INVALID_VALUE;
}

// Unlike in the call for one attribute, an unknown pointer is no error: every attribute reads as zero
// (measured).
CUresult cuPointerGetAttributes(unsigned int num_attributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  if (num_attributes == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto allocation = call.driver().memory.FindAllocation(ptr);
  for (unsigned i = 0; i < num_attributes; ++i) {
    if (data[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (allocation && Describe(call.driver(), *allocation, attributes[i], ptr, data[i]) == CUDA_SUCCESS)
      continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        Answer(data[i], CU_DEVICE_INVALID);
        break;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      case CU_POINTER_ATTRIBUTE_MAPPED:
      case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        Answer(data[i], 0u);
        break;
      default:
        Answer(data[i], 0ull);
        break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto allocation = call.driver().memory.FindAllocation(ptr);
  if (value == nullptr || !allocation || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
