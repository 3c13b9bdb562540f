// The common beginning of every call of the API.
#pragma once

#include <memory>

#include "sim/cuda/driver.h"

namespace gpuman::sim::cuda {

enum class Need {
  kInit,            // cuInit was called
  kHealthy,         // and no kernel of the process has faulted
  kContext,         // and a context is current whose device is present
  kContextUncaught  // as kContext, and it disturbs no capture: for calls that may wait or change the device
};

// Usage: `Call call(__func__); if (!call) return call.error();`. Waits while the process is locked for a
// checkpoint; obeys injected delays.
class Call {
 public:
  explicit Call(const char* function, Need need = Need::kContext);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  explicit operator bool() const { return error_ == CUDA_SUCCESS; }
  CUresult error() const { return error_; }
  Driver& driver() const { return driver_; }
  Context& context() const { return *context_; }
  const std::shared_ptr<Context>& shared_context() const { return context_; }
  Device& device() const { return context_->device(); }

 private:
  CUresult Enter(const char* function, Need need);

  Driver& driver_;
  std::shared_ptr<Context> context_;
  bool holds_lock_ = false;
  CUresult error_;
};

// While an object of this class exists, the null stream of its thread means the per-thread default stream.
class PerThreadDefault {
 public:
  PerThreadDefault();
  ~PerThreadDefault();
  PerThreadDefault(const PerThreadDefault&) = delete;
  PerThreadDefault& operator=(const PerThreadDefault&) = delete;

 private:
  bool before_;
};

// The stream that a handle names in the context of the call, and the stream's context. Null: the handle is
// wrong (CUDA_ERROR_INVALID_HANDLE).
struct StreamReference {
  std::shared_ptr<Stream> stream{};
  std::shared_ptr<Context> context{};
  explicit operator bool() const { return stream != nullptr; }
};
StreamReference ResolveStream(const Call& call, CUstream handle);

// The mode that cuThreadExchangeStreamCaptureMode sets.
CUstreamCaptureMode& ThreadCaptureMode();

}  // namespace gpuman::sim::cuda
