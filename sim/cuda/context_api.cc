// Contexts: primary contexts, created contexts, and the stack of a thread.
#include <algorithm>
#include <bit>

#include "sim/cuda/api.h"
#include "sim/cuda/pool.h"

namespace gpuman::sim::cuda {
namespace {

// Known flags, and at most one way to wait.
bool FlagsAreGood(unsigned flags) {
  return (flags & ~unsigned{CU_CTX_FLAGS_MASK}) == 0 && std::popcount(flags & CU_CTX_SCHED_MASK) <= 1;
}

std::shared_ptr<Context> FindContext(const Call& call, CUcontext handle, CUresult& error) {
  auto context = handle != nullptr ? call.driver().contexts.Find(handle) : call.shared_context();
  error = context == nullptr     ? CUDA_ERROR_INVALID_CONTEXT
          : context->destroyed() ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                 : CUDA_SUCCESS;
  return context;
}

CUresult Create(const char* function, CUcontext* out, unsigned flags, CUdevice device) {
  const Call call(function, Need::kHealthy);
  if (!call) return call.error();
  Device* const on = call.driver().FindDevice(device);
  if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr || !FlagsAreGood(flags)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  const CUresult created = call.driver().CreateContext(*on, flags, false, context);
  if (created != CUDA_SUCCESS) return created;
  CurrentContexts().push_back(context);
  *out = HandleOf<CUcontext>(context);
  return CUDA_SUCCESS;
}

CUresult SynchronizeContext(Driver& driver, Context& context) {
  if (context.device().IsLost()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (context.SpoilCaptures()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // in any mode (measured)
  context.Synchronize();
  driver.current_pool(context.device())->TrimToThreshold();
  return driver.fault();
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  Device* const on = call.driver().FindDevice(device);
  if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Primary& primary = call.driver().primary(*on);
  const std::lock_guard lock(primary.mutex);
  if (primary.context == nullptr) {
    const CUresult created = call.driver().CreateContext(*on, primary.flags, true, primary.context);
    if (created != CUDA_SUCCESS) return created;
  }
  ++primary.references;
  *out = HandleOf<CUcontext>(primary.context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  Device* const on = call.driver().FindDevice(device);
  if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Primary& primary = call.driver().primary(*on);
  const std::lock_guard lock(primary.mutex);
  if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.references == 0 && primary.context != nullptr) {
    call.driver().DestroyContext(primary.context);
    primary.context = nullptr;
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  Device* const on = call.driver().FindDevice(device);
  if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Primary& primary = call.driver().primary(*on);
  const std::lock_guard lock(primary.mutex);
  if (primary.context != nullptr) call.driver().DestroyContext(primary.context);
  primary.context = nullptr;
  primary.flags = 0;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  Device* const on = call.driver().FindDevice(device);
  if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!FlagsAreGood(flags)) return CUDA_ERROR_INVALID_VALUE;
  Primary& primary = call.driver().primary(*on);
  const std::lock_guard lock(primary.mutex);
  primary.flags = flags;
  if (primary.context != nullptr) primary.context->set_flags(flags);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  Device* const on = call.driver().FindDevice(device);
  if (on == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Primary& primary = call.driver().primary(*on);
  const std::lock_guard lock(primary.mutex);
  *flags = primary.flags;
  *active = primary.context != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  return Create(__func__, out, flags, device);
}
CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* params_array, int num_params, unsigned int flags,
                        CUdevice device) {
  if (params_array != nullptr && num_params > 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return Create(__func__, out, flags, device);
}
CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* ctx_create_params, unsigned int flags,
                        CUdevice device) {
  if (ctx_create_params != nullptr) {
    if (ctx_create_params->numExecAffinityParams > 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (ctx_create_params->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return Create(__func__, out, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  const auto found = call.driver().contexts.Find(context);
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (found->primary()) return CUDA_ERROR_INVALID_DEVICE;  // measured
  if (found->destroyed()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  auto& stack = CurrentContexts();
  if (!stack.empty() && stack.back() == found) stack.pop_back();
  call.driver().DestroyContext(found);
  return CUDA_SUCCESS;
}

// Only a context of cuCtxCreate can be attached; attachments are not counted.
CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  const Call call(__func__);
  if (!call) return call.error();
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = HandleOf<CUcontext>(call.shared_context());
  return CUDA_SUCCESS;
}
CUresult cuCtxDetach(CUcontext context) { return cuCtxDestroy_v2(context); }

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  auto found = call.driver().contexts.Find(context);
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  // An H200 refuses a destroyed primary context, with an error that was not recorded; its answer for other
  // contexts is not known.
  if (found->primary() && found->destroyed()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  CurrentContexts().push_back(std::move(found));
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  auto& stack = CurrentContexts();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = HandleOf<CUcontext>(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  auto& stack = CurrentContexts();
  if (context == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  // A destroyed context is accepted; calls in it fail (measured).
  auto found = call.driver().contexts.Find(context);
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.empty()) {
    stack.push_back(std::move(found));
  } else {
    stack.back() = std::move(found);
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& stack = CurrentContexts();
  *out = stack.empty() ? nullptr : HandleOf<CUcontext>(stack.back());
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult error{};
  const auto found = FindContext(call, context, error);
  if (error == CUDA_SUCCESS) *device = found->device().ordinal();
  return error;
}
CUresult cuCtxGetDevice(CUdevice* device) { return cuCtxGetDevice_v2(device, nullptr); }

CUresult cuCtxGetFlags(unsigned int* flags) {
  const Call call(__func__);
  if (!call) return call.error();
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = call.context().flags();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetFlags(unsigned int flags) {
  const Call call(__func__);
  if (!call) return call.error();
  if (!FlagsAreGood(flags)) return CUDA_ERROR_INVALID_VALUE;
  call.context().set_flags(flags);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* ctx_id) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  if (ctx_id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult error{};
  const auto found = FindContext(call, context, error);
  if (error == CUDA_SUCCESS) *ctx_id = found->id();
  return error;
}

CUresult cuCtxSynchronize() {
  const Call call(__func__);
  return call ? SynchronizeContext(call.driver(), call.context()) : call.error();
}
CUresult cuCtxSynchronize_v2(CUcontext context) {
  if (context == nullptr) return cuCtxSynchronize();
  const Call call(__func__, Need::kHealthy);
  if (!call) return call.error();
  CUresult error{};
  const auto found = FindContext(call, context, error);
  return error == CUDA_SUCCESS ? SynchronizeContext(call.driver(), *found) : error;
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  const Call call(__func__);
  if (!call) return call.error();
  if (value == nullptr || limit >= call.context().limits.size()) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit > CU_LIMIT_SHMEM_SIZE + 1)
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = call.context().limits[limit];
  return CUDA_SUCCESS;
}
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  const Call call(__func__);
  if (!call) return call.error();
  if (limit >= call.context().limits.size()) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  call.context().limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  const Call call(__func__, Need::kInit);
  if (!call) return call.error();
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult error{};
  FindContext(call, context, error);
  if (error == CUDA_SUCCESS) *version = 3020;  // the real driver still returns this
  return error;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  const Call call(__func__);
  if (!call) return call.error();
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  const Call call(__func__);
  return !call ? call.error() : config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  const Call call(__func__);
  if (!call) return call.error();
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  const Call call(__func__);
  return !call                                                ? call.error()
         : config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                              : CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least_priority, int* greatest_priority) {
  const Call call(__func__);
  if (!call) return call.error();
  if (least_priority != nullptr) *least_priority = 0;
  if (greatest_priority != nullptr) *greatest_priority = -5;
  return CUDA_SUCCESS;
}
CUresult cuCtxResetPersistingL2Cache() { return Call(__func__).error(); }

CUresult cuCtxEnablePeerAccess(CUcontext peer_context, unsigned int flags) {
  const Call call(__func__);
  if (!call) return call.error();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto peer = call.driver().contexts.Find(peer_context);
  if (peer == nullptr || peer->destroyed()) return CUDA_ERROR_INVALID_CONTEXT;
  if (!call.device().CanAccess(peer->device())) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  const std::uint32_t bit = 1u << peer->device().ordinal();
  return (call.context().peers.fetch_or(bit) & bit) != 0 ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                                                         : CUDA_SUCCESS;
}
CUresult cuCtxDisablePeerAccess(CUcontext peer_context) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto peer = call.driver().contexts.Find(peer_context);
  if (peer == nullptr || peer->destroyed()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::uint32_t bit = 1u << peer->device().ordinal();
  return (call.context().peers.fetch_and(~bit) & bit) == 0 ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
                                                           : CUDA_SUCCESS;
}

}  // namespace gpuman::sim::cuda
