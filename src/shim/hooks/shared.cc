// Functions that let others reach memory that can leave the device, and functions that tell of a handle. The
// shim puts the driver's handles in place of the program's tokens. Memory that others can reach stays on the
// device.
#include "shim/backing/backing.h"
#include "shim/backing/program_memory.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"

namespace gpuman::shim {
namespace {

// Calls bind(real, handle) with the driver's handle for the program's handle.
template <typename Real, typename Bind>
CUresult BindBy(Real* real, CUmemGenericAllocationHandle handle, Bind bind) {
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  const CUresult result = bind(real, scope ? InfoOf(*scope, handle).handle : handle);
  if (scope && result == CUDA_SUCCESS) {
    StaysHeld(*scope, handle);
    TellShares(*scope);
  }
  return result;
}

CUresult BoundAt(CUresult result, CUdeviceptr address, std::size_t size) {
  const HookErrnoScope scope;
  if (scope && result == CUDA_SUCCESS) {
    StaysAt(*scope, address, size);
    TellShares(*scope);
  }
  return result;
}

}  // namespace

namespace hook {

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  auto* const real = GPUMAN_REAL(cuMemGetAllocationPropertiesFromHandle);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope) return real(prop, handle);
  const HandleInfo held = InfoOf(*scope, handle);
  const CUresult result = real(prop, held.handle);
  if (result != CUDA_SUCCESS || !held.token) return result;
  prop->requestedHandleTypes = static_cast<CUmemAllocationHandleType>(held.types);
  prop->allocFlags.gpuDirectRDMACapable = held.direct;
  return result;
}

CUresult cuMemExportToShareableHandle(void* shareable_handle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handle_type, unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMemExportToShareableHandle);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope) return real(shareable_handle, handle, handle_type, flags);
  const HandleInfo held = InfoOf(*scope, handle);
  // The driver answers so for memory that was not made for such an export (measured).
  if (held.token && (handle_type == 0 || (held.types & handle_type) != handle_type))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (held.kept > 0 && shareable_handle != nullptr && flags == 0) {
    // The driver does not export memory that came from another process. The program gets the descriptor by
    // which the memory came.
    const int duplicate = DuplicateDescriptor((*scope).descriptor_store, held.kept);
    result = duplicate >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
    if (duplicate >= 0) __builtin_memcpy(shareable_handle, &duplicate, sizeof duplicate);
  } else {
    result = real(shareable_handle, held.handle, handle_type, flags);
  }
  if (result == CUDA_SUCCESS) {
    StaysHeld(*scope, handle);
    TellShares(*scope);
  }
  return result;
}

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr dptr, size_t size,
                                       CUmemRangeHandleType handle_type, unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMemGetHandleForAddressRange);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = real(handle, dptr, size, handle_type, flags);
  const HookErrnoScope scope;
  if (scope && result == CUDA_SUCCESS) {
    StaysAt(*scope, dptr, size);
    TellShares(*scope);
  }
  return result;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mc_handle, size_t mc_offset,
                            CUmemGenericAllocationHandle mem_handle, size_t mem_offset, size_t size,
                            unsigned long long flags) {
  return BindBy(GPUMAN_REAL(cuMulticastBindMem), mem_handle,
                [&](auto* real, CUmemGenericAllocationHandle held) {
                  return real(mc_handle, mc_offset, held, mem_offset, size, flags);
                });
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mc_handle, CUdevice device, size_t mc_offset,
                               CUmemGenericAllocationHandle mem_handle, size_t mem_offset, size_t size,
                               unsigned long long flags) {
  return BindBy(GPUMAN_REAL(cuMulticastBindMem_v2), mem_handle,
                [&](auto* real, CUmemGenericAllocationHandle held) {
                  return real(mc_handle, device, mc_offset, held, mem_offset, size, flags);
                });
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mc_handle, size_t mc_offset, CUdeviceptr memptr,
                             size_t size, unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMulticastBindAddr);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return BoundAt(real(mc_handle, mc_offset, memptr, size, flags), memptr, size);
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mc_handle, CUdevice device, size_t mc_offset,
                                CUdeviceptr memptr, size_t size, unsigned long long flags) {
  auto* const real = GPUMAN_REAL(cuMulticastBindAddr_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return BoundAt(real(mc_handle, device, mc_offset, memptr, size, flags), memptr, size);
}

}  // namespace hook
}  // namespace gpuman::shim
