#include "shim/gate/streams.h"

#include "shim/gate/gate.h"
#include "shim/libc/lock.h"
#include "shim/symbols/driver.h"

namespace gpuman::shim {

using namespace driver::abi;  // NOLINT(google-build-using-namespace): the vendor's names

bool IsCapturing(CUstream stream) {
  auto* const ask = GPUMAN_REAL(cuStreamIsCapturing);
  CUstreamCaptureStatus status{};
  return ask == nullptr || ask(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool WhereOf(GateState& state, CUstream stream, AllocationTarget& where) {
  if (!CurrentWhere(state, where)) return false;
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return true;
  auto* const ask = GPUMAN_REAL(cuStreamGetCtx);
  CUcontext context = nullptr;
  if (ask == nullptr || ask(stream, &context) != CUDA_SUCCESS) return false;
  const std::uint64_t number = reinterpret_cast<std::uintptr_t>(context);
  if (number == where.context) return true;
  {
    const Locked lock(state.contexts);
    if (const Context* const known = state.context.Find(number)) {
      where = {known->device, number, GranuleOf(state, known->device)};
      return where.granule != 0;
    }
  }
  // The shim did not see how this context was made.
  auto* const push = GPUMAN_REAL(cuCtxPushCurrent_v2);
  auto* const pop = GPUMAN_REAL(cuCtxPopCurrent_v2);
  if (push == nullptr || pop == nullptr || push(context) != CUDA_SUCCESS) return false;
  const bool found = CurrentWhere(state, where);
  pop(&context);
  return found;
}

StreamKey KeyOf(std::uint64_t context, CUstream stream) {
  // No other stream has this number: contexts are aligned, and the driver's numbers of streams are small.
  if (stream == nullptr || stream == CU_STREAM_LEGACY) return {context + 1, true};
  if (stream == CU_STREAM_PER_THREAD) return {reinterpret_cast<std::uintptr_t>(&thread_slot), false};
  auto* const ask = GPUMAN_REAL(cuStreamGetId);
  unsigned long long number = 0;
  if (ask != nullptr && ask(stream, &number) == CUDA_SUCCESS) return {number, true};
  return {reinterpret_cast<std::uintptr_t>(stream), false};
}

}  // namespace gpuman::shim
