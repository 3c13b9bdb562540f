// What memory that the shim backs is told to be: the allocation that the program made, not the mappings that
// it is made of. The driver is asked first, so its errors stay its own.
#include "shim/backing.h"
#include "shim/hooks.h"

namespace gpuman::shim {
namespace {

template <typename T>
void Answer(void* data, T value) {
  __builtin_memcpy(data, &value, sizeof(T));
}

// The driver's answer in `data` becomes that of plain memory.
void Mend(const Region& region, CUpointer_attribute attribute, void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Answer(data, reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(region.context)));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Answer(data, CUdeviceptr{region.address});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Answer(data, std::size_t{region.size});
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      // One for the whole allocation: that of its first piece.
      if (auto* const real = GPUMAN_REAL(cuPointerGetAttribute))
        real(data, CU_POINTER_ATTRIBUTE_BUFFER_ID, region.address);
      return;
    default:
      return;
  }
}

}  // namespace

namespace hook {

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr pointer) {
  auto* const real = GPUMAN_REAL(cuMemGetAddressRange_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(base, size, pointer);
  const Visit visit;
  Region region{};
  if (!visit || result != CUDA_SUCCESS || !FindBacked(*visit, pointer, region)) return result;
  if (base != nullptr) *base = region.address;
  if (size != nullptr) *size = region.size;
  return result;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  auto* const real = GPUMAN_REAL(cuPointerGetAttribute);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(data, attribute, ptr);
  const Visit visit;
  Region region{};
  if (visit && result == CUDA_SUCCESS && FindBacked(*visit, ptr, region)) Mend(region, attribute, data);
  return result;
}

CUresult cuPointerGetAttributes(unsigned int num_attributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
  auto* const real = GPUMAN_REAL(cuPointerGetAttributes);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(num_attributes, attributes, data, ptr);
  const Visit visit;
  Region region{};
  if (!visit || result != CUDA_SUCCESS || !FindBacked(*visit, ptr, region)) return result;
  for (unsigned i = 0; i < num_attributes; ++i) Mend(region, attributes[i], data[i]);
  return result;
}

}  // namespace hook

}  // namespace gpuman::shim
