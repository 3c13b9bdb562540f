// Contexts: what one costs by itself, and all that goes with it.
//
// Nobody tells the cost before; the daemon knows it from other processes (context_bytes in the ledger). Where
// it does not yet, the first context counts nothing here, and is seen from outside.
#include "shim/backing.h"
#include "shim/hooks.h"
#include "shim/meter.h"
#include "shim/paging.h"
#include "shim/refusal.h"

namespace gpuman::shim {
namespace {

std::uint64_t NumberOf(CUcontext context) { return reinterpret_cast<std::uintptr_t>(context); }

// Everything that was allocated in the context, and the context. For who holds guest.contexts.
void Gone(Guest& guest, std::uint64_t context) {
  Context entry{};
  if (guest.context.Take(context, entry)) GiveBack(guest, entry.device, entry.held);
  DropBackedOf(guest, context);
  CloseSharedOf(guest, context);
  PoolsWithoutContext(guest, context);
  constexpr unsigned kBatch = 256;
  Allocation taken[kBatch];
  for (unsigned count = kBatch; count == kBatch;) {
    const Locked lock(guest.books);
    count = guest.allocations.TakeOf(context, taken, kBatch);
    for (unsigned i = 0; i < count; ++i) GiveBack(guest, taken[i].device, guest.allocations.Freed(taken[i]));
  }
  TellManaged(guest);
  const Locked lock(guest.books);
  for (ArrayEntry array{}; guest.arrays.TakeOneOf(context, array);)
    GiveBack(guest, array.device, guest.arrays.Freed(array));
}

void Enter(Guest& guest, std::uint64_t context, int device, std::uint64_t bytes) {
  Gone(guest, context);  // of an earlier context of the same number
  if (Context* const entry = guest.context.Insert(context)) *entry = {device, bytes};
  StartAttendant(guest);
  ReachFrom(guest, device);
}

bool IsActive(CUdevice device) {
  auto* const ask = GPUMAN_REAL(cuDevicePrimaryCtxGetState);
  unsigned flags = 0;
  int active = 0;
  return ask != nullptr && ask(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// The limit does not hold another context.
CUresult Refused(Guest& guest, int device, std::uint64_t bytes) {
  TellIfRefused(guest, device, bytes, CUDA_ERROR_OUT_OF_MEMORY, false);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Create>
CUresult CreateWithin(CUcontext* out, CUdevice device, Create create) {
  const Visit visit;
  if (!visit || out == nullptr || GranuleOf(*visit, device) == 0) return create();
  const Locked lock((*visit).contexts);
  const std::uint64_t bytes = ContextBytes(*visit, device);
  if (!Reserve(*visit, device, bytes)) return Refused(*visit, device, bytes);
  const CUresult result = create();
  if (result == CUDA_SUCCESS)
    Enter(*visit, NumberOf(*out), device, bytes);
  else
    GiveBack(*visit, device, bytes);
  return result;
}

template <typename Destroy>
CUresult DestroyContext(CUcontext context, Destroy destroy) {
  const Visit visit;
  if (!visit) return destroy();
  const Locked lock((*visit).contexts);
  const CUresult result = destroy();
  if (result == CUDA_SUCCESS) Gone(*visit, NumberOf(context));
  return result;
}

// A release or a reset, after which the primary context may be gone.
template <typename Release>
CUresult ReleasePrimary(CUdevice device, Release release) {
  const Visit visit;
  if (!visit || device < 0 || device >= kMostDevices) return release();
  const Locked lock((*visit).contexts);
  const CUresult result = release();
  std::uint64_t& primary = (*visit).primary[device];
  if (result == CUDA_SUCCESS && primary != 0 && !IsActive(device)) {
    Gone(*visit, primary);
    primary = 0;
  }
  return result;
}

}  // namespace

namespace hook {

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  auto* const real = GPUMAN_REAL(cuDevicePrimaryCtxRetain);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const Visit visit;
  if (!visit || out == nullptr || GranuleOf(*visit, device) == 0) return real(out, device);
  const Locked lock((*visit).contexts);
  if (IsActive(device)) return real(out, device);
  const std::uint64_t bytes = ContextBytes(*visit, device);
  if (!Reserve(*visit, device, bytes)) return Refused(*visit, device, bytes);
  const CUresult result = real(out, device);
  if (result == CUDA_SUCCESS) {
    Enter(*visit, NumberOf(*out), device, bytes);
    (*visit).primary[device] = NumberOf(*out);
  } else {
    GiveBack(*visit, device, bytes);
  }
  return result;
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
