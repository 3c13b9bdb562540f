#include "shim/symbols/driver_calls.h"

#include "shim/symbols/driver.h"

namespace gpuman::shim {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

void MeetDriver() {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (auto* const exchange = GPUMAN_REAL(cuThreadExchangeStreamCaptureMode)) exchange(&mode);
  CUcontext none = nullptr;
  if (auto* const ask = GPUMAN_REAL(cuCtxGetCurrent)) ask(&none);
}

CUresult SynchronizeContext(std::uint64_t context) {
  auto* const push = GPUMAN_REAL(cuCtxPushCurrent_v2);
  auto* const pop = GPUMAN_REAL(cuCtxPopCurrent_v2);
  auto* const synchronize = GPUMAN_REAL(cuCtxSynchronize);
  if (push == nullptr || pop == nullptr || synchronize == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult pushed = push(reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(context)));
  if (pushed != CUDA_SUCCESS) return pushed;
  const CUresult result = synchronize();
  CUcontext ignored = nullptr;
  pop(&ignored);
  return result;
}

RelaxedCapture::RelaxedCapture() : mode_(CU_STREAM_CAPTURE_MODE_RELAXED), exchanged_(false) {
  auto* const exchange = GPUMAN_REAL(cuThreadExchangeStreamCaptureMode);
  exchanged_ = exchange != nullptr && exchange(&mode_) == CUDA_SUCCESS;
}

RelaxedCapture::~RelaxedCapture() {
  auto* const exchange = GPUMAN_REAL(cuThreadExchangeStreamCaptureMode);
  if (exchanged_ && exchange != nullptr) exchange(&mode_);
}

}  // namespace gpuman::shim
