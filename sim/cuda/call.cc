#include "sim/cuda/call.h"

#include "sim/state/lifecycle.h"

namespace gpuman::sim::cuda {
namespace {

thread_local unsigned depth = 0;
thread_local bool per_thread_default = false;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace

CUstreamCaptureMode& ThreadCaptureMode() { return capture_mode; }

PerThreadDefault::PerThreadDefault() : before_(per_thread_default) { per_thread_default = true; }
PerThreadDefault::~PerThreadDefault() { per_thread_default = before_; }

Call::Call(const char* function, Need need) : driver_(Driver::Get()), error_(Enter(function, need)) {}

Call::~Call() {
  --depth;
  if (holds_lock_) driver_.calls.unlock_shared();
}

CUresult Call::Enter(const char* function, Need need) {
  ++depth;
  if (!driver_.initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  if (OnStreamThread()) return CUDA_ERROR_NOT_PERMITTED;
  // A call within a call (from a callback of the program) must not wait for a writer that waits for the outer
  // call.
  if (depth == 1) {
    driver_.calls.lock_shared();
    holds_lock_ = true;
  }
  const auto& stack = CurrentContexts();
  if (!stack.empty()) context_ = stack.back();
  ObeySlowCalls(driver_.state().shared(), function, context_ ? context_->device().gpu() : kAllGpus);
  if (LosesContexts(driver_.state().shared().faults)) driver_.SetFault(CUDA_ERROR_ECC_UNCORRECTABLE);
  if (need == Need::kInit) return CUDA_SUCCESS;
  if (driver_.fault() != CUDA_SUCCESS) return driver_.fault();
  if (need == Need::kHealthy) return CUDA_SUCCESS;
  if (context_ == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context_->destroyed()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (context_->device().IsLost()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (need == Need::kContextUncaught && driver_.CaptureForbids(capture_mode)) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

StreamReference ResolveStream(const Call& call, CUstream handle) {
  if (handle == CU_STREAM_PER_THREAD || (handle == nullptr && per_thread_default)) {
    return {call.context().PerThread(), call.shared_context()};
  }
  if (handle == nullptr || handle == CU_STREAM_LEGACY)
    return {call.context().legacy(), call.shared_context()};
  const auto found = call.driver().streams.Find(handle);
  if (found == nullptr || found->context->destroyed()) return {};
  return {found->stream, found->context};
}

}  // namespace gpuman::sim::cuda
