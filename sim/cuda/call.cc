#include "sim/cuda/call.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "sim/state/lifecycle.h"

namespace gpuman::sim::cuda {
namespace {

thread_local unsigned depth = 0;
thread_local bool per_thread_default = false;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Calls that end a process which is checkpointed (measured: docs/shim-protocol.md). The others wait until it
// is unlocked; a few the real driver answers, where this one waits.
constexpr std::array<std::string_view, 5> kFatalWhileCheckpointed = {
    "cuStreamQuery", "cuEventQuery", "cuEventElapsedTime", "cuEventSynchronize", "cuCtxSynchronize"};

bool IsCheckpointed(Driver& driver) {
  const ProcessSlot* const slot = driver.client().Slot();
  return slot != nullptr &&
         slot->checkpoint.state.load() == static_cast<std::uint32_t>(CheckpointState::kCheckpointed);
}

CUresult CallWhileCheckpointed(std::string_view function) {
  const auto is = [function](std::string_view fatal) { return function.substr(0, fatal.size()) == fatal; };
  if (std::any_of(kFatalWhileCheckpointed.begin(), kFatalWhileCheckpointed.end(), is)) std::raise(SIGSEGV);
  return function.substr(0, 12) == "cuMemGetInfo" ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

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
    if (IsCheckpointed(driver_))
      if (const CUresult result = CallWhileCheckpointed(function); result != CUDA_SUCCESS) return result;
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
