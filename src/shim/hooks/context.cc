// Contexts: what a context costs by itself, and all memory that ends with it.
//
// The driver does not tell the cost in advance; the daemon knows it from other processes (context_bytes in
// the ledger). Where the daemon does not know it yet, the context counts nothing here: it is uncounted
// memory, and the program goes on when the daemon has seen it.
#include "shim/accounting/meter.h"
#include "shim/accounting/refusal.h"
#include "shim/accounting/trace_memory.h"
#include "shim/backing/backing.h"
#include "shim/backing/paging.h"
#include "shim/gate/drain.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/lock.h"

namespace gpuman::shim {
namespace {

std::uint64_t NumberOf(CUcontext context) { return reinterpret_cast<std::uintptr_t>(context); }

// Gives back the context, and everything that was allocated in it. The caller holds state.contexts.
void Gone(ProcessState& state, std::uint64_t context) {
  ForgetStreamGatesOf(state, context);
  Context entry{};
  if (state.context.Take(context, entry)) GiveBack(state, entry.device, MemoryKind::kContext, entry.held);
  DropBackedOf(state, context);
  CloseSharedOf(state, context);
  PoolsWithoutContext(state, context);
  constexpr unsigned kBatch = 256;
  Allocation taken[kBatch];
  for (unsigned count = kBatch; count == kBatch;) {
    const Locked lock(state.books);
    count = state.allocations.TakeOf(context, taken, kBatch);
    for (unsigned i = 0; i < count; ++i) {
      NoteFreed(state, taken[i].address);
      GiveBack(state, taken[i].device, MemoryKind::kAllocation, state.allocations.Freed(taken[i]));
    }
  }
  TellManaged(state);
  const Locked lock(state.books);
  for (ArrayEntry array{}; state.arrays.TakeOneOf(context, array);)
    GiveBack(state, array.device, MemoryKind::kArray, state.arrays.Freed(array));
}

void Enter(ProcessState& state, std::uint64_t context, int device, std::uint64_t bytes) {
  Gone(state, context);  // an earlier context of the same number
  if (Context* const entry = state.context.Insert(context)) *entry = {device, bytes};
  StartServiceThread(state);
  DrainDevice(state, device);
  ReachFrom(state, device);
}

bool IsActive(CUdevice device) {
  auto* const ask = GPUMAN_REAL(cuDevicePrimaryCtxGetState);
  unsigned flags = 0;
  int active = 0;
  return ask != nullptr && ask(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// What became of the call that makes a context.
struct Attempt {
  CUresult result;
  std::uint64_t bytes;  // that the context counts, or would count; 0: nobody knows what it costs
  bool full;            // the device had no room
};

// Makes a context with `create`, within the limit. The caller holds state.contexts.
template <typename Create>
Attempt Make(ProcessState& state, CUcontext* out, CUdevice device, Create create) {
  const std::uint64_t bytes = ContextBytes(state, device);
  if (!Reserve(state, device, bytes)) return {CUDA_ERROR_OUT_OF_MEMORY, bytes, false};
  const CUresult result = create();
  if (result != CUDA_SUCCESS) {
    Withdraw(state, device, bytes);
    return {result, bytes, true};
  }
  Granted(state, device, MemoryKind::kContext, bytes);
  Enter(state, NumberOf(*out), device, bytes);
  return {result, bytes, false};
}

// After Make; the caller does not hold state.contexts.
CUresult Finish(ProcessState& state, int device, const Attempt& made) {
  TellIfRefused(state, device, made.bytes, made.result, made.full, ledger::wire::RefusedWhat::kContext);
  if (made.result == CUDA_SUCCESS && made.bytes == 0) AwaitUncounted(state, device);
  if (made.result == CUDA_SUCCESS) AwaitServiceThread(state, device);
  return made.result;
}

template <typename Create>
CUresult CreateWithin(CUcontext* out, CUdevice device, Create create) {
  const HookErrnoScope scope;
  if (!scope || out == nullptr || GranuleOf(*scope, device) == 0) return create();
  Attempt made{};
  {
    const Locked lock((*scope).contexts);
    made = Make(*scope, out, device, create);
  }
  return Finish(*scope, device, made);
}

// Returns the device of a context; kMaxDevices: no drain thread waits for it.
int DeviceOf(ProcessState& state, std::uint64_t context) {
  const Locked lock(state.contexts);
  const Context* const known = state.context.Find(context);
  return known != nullptr && known->device >= 0 ? known->device : kMaxDevices;
}

template <typename Destroy>
CUresult DestroyContext(CUcontext context, Destroy destroy) {
  const HookErrnoScope scope;
  if (!scope) return destroy();
  AwaitDrains(*scope, DeviceOf(*scope, NumberOf(context)));
  const Locked lock((*scope).contexts);
  const CUresult result = destroy();
  if (result == CUDA_SUCCESS) Gone(*scope, NumberOf(context));
  return result;
}

// A release or a reset, after which the primary context may have ended.
template <typename Release>
CUresult ReleasePrimary(CUdevice device, Release release) {
  const HookErrnoScope scope;
  if (!scope || device < 0 || device >= kMaxDevices) return release();
  AwaitDrains(*scope, device);
  const Locked lock((*scope).contexts);
  const CUresult result = release();
  std::uint64_t& primary = (*scope).primary[device];
  if (result == CUDA_SUCCESS && primary != 0 && !IsActive(device)) {
    Gone(*scope, primary);
    primary = 0;
  }
  return result;
}

}  // namespace

namespace hook {

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  auto* const real = GPUMAN_REAL(cuDevicePrimaryCtxRetain);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const HookErrnoScope scope;
  if (!scope || out == nullptr || GranuleOf(*scope, device) == 0) return real(out, device);
  Attempt made{};
  {
    const Locked lock((*scope).contexts);
    if (IsActive(device)) return real(out, device);
    made = Make(*scope, out, device, [&] { return real(out, device); });
    if (made.result == CUDA_SUCCESS) (*scope).primary[device] = NumberOf(*out);
  }
  return Finish(*scope, device, made);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  auto* const real = GPUMAN_REAL(cuDevicePrimaryCtxRelease);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return ReleasePrimary(device, [&] { return real(device); });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  auto* const real = GPUMAN_REAL(cuDevicePrimaryCtxRelease_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return ReleasePrimary(device, [&] { return real(device); });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  auto* const real = GPUMAN_REAL(cuDevicePrimaryCtxReset);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return ReleasePrimary(device, [&] { return real(device); });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  auto* const real = GPUMAN_REAL(cuDevicePrimaryCtxReset_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return ReleasePrimary(device, [&] { return real(device); });
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  auto* const real = GPUMAN_REAL(cuCtxCreate_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return CreateWithin(out, device, [&] { return real(out, flags, device); });
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* params_array, int num_params, unsigned int flags,
                        CUdevice device) {
  auto* const real = GPUMAN_REAL(cuCtxCreate_v3);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return CreateWithin(out, device, [&] { return real(out, params_array, num_params, flags, device); });
}

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* ctx_create_params, unsigned int flags,
                        CUdevice device) {
  auto* const real = GPUMAN_REAL(cuCtxCreate_v4);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return CreateWithin(out, device, [&] { return real(out, ctx_create_params, flags, device); });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  auto* const real = GPUMAN_REAL(cuCtxDestroy_v2);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return DestroyContext(context, [&] { return real(context); });
}

CUresult cuCtxDetach(CUcontext context) {
  auto* const real = GPUMAN_REAL(cuCtxDetach);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return DestroyContext(context, [&] { return real(context); });
}

}  // namespace hook

}  // namespace gpuman::shim
