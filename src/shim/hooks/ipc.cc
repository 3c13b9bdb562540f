// Legacy IPC. The shim shares backed memory; the driver shares other memory, and opens handles that are not a
// shim's.
#include "shim/backing/ipc.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"

namespace gpuman::shim {
namespace {

template <typename Real>
CUresult OpenBy(Real* real, CUdeviceptr* pointer, const CUipcMemHandle& handle, unsigned flags) {
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  CUresult result{};
  return scope && OpenShared(*scope, pointer, handle, flags, result) ? result : real(pointer, handle, flags);
}

}  // namespace

namespace hook {

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  auto* const real = GPUMAN_REAL(cuIpcGetMemHandle);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  CUresult result{};
  return scope && ShareBacked(*scope, pointer, handle, result) ? result : real(handle, pointer);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return OpenBy(GPUMAN_REAL(cuIpcOpenMemHandle), out, handle, flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return OpenBy(GPUMAN_REAL(cuIpcOpenMemHandle_v2), out, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  auto* const real = GPUMAN_REAL(cuIpcCloseMemHandle);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  CUresult result{};
  return scope && CloseShared(*scope, pointer, result) ? result : real(pointer);
}

}  // namespace hook

}  // namespace gpuman::shim
