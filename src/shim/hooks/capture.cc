// Counts the streams that are being captured. While there are any, a wait for a context would spoil a
// capture. A stream that is destroyed while it is captured counts for ever: the memory of its process stays
// on the GPU.
#include "ledger/wire/orders.h"
#include "shim/gate/drain.h"
#include "shim/gate/streams.h"
#include "shim/hooks/hooks.h"
#include "shim/hooks/process_state.h"
#include "shim/libc/lock.h"

namespace gpuman::shim {
namespace {

// `queried` is the stream as functions without the per-thread default stream name it.
bool Captures(CUstream queried) {
  auto* const ask = GPUMAN_REAL(cuStreamIsCapturing);
  CUstreamCaptureStatus status{};
  return ask != nullptr && ask(queried, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

template <typename Begin>
CUresult BeginIn(Begin begin) {
  ProcessState* const state = UnjoinedState();
  if (state == nullptr) return begin();
  AwaitDrains(*state, kEveryDevice);
  const Locked lock(state->capturing);
  const CUresult result = begin();
  if (result == CUDA_SUCCESS) __atomic_fetch_add(&state->captures, 1, __ATOMIC_SEQ_CST);
  return result;
}

template <typename End>
CUresult EndIn(CUstream queried, End end) {
  ProcessState* const state = UnjoinedState();
  const bool before = Captures(queried);
  const CUresult result = end();
  if (state == nullptr || !before || Captures(queried)) return result;
  std::uint32_t captures = ledger::wire::Load(state->captures);
  while (captures != 0 && !__atomic_compare_exchange_n(&state->captures, &captures, captures - 1, false,
                                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  if (captures == 1) ShutAfterCaptures(*state);
  return result;
}

}  // namespace

namespace hook {

CUresult cuStreamBeginCapture(CUstream stream) {
  auto* const real = GPUMAN_REAL(cuStreamBeginCapture);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : BeginIn([&] { return real(stream); });
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  auto* const real = GPUMAN_REAL_TWIN(cuStreamBeginCapture, _ptsz);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : BeginIn([&] { return real(stream); });
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  auto* const real = GPUMAN_REAL(cuStreamBeginCapture_v2);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : BeginIn([&] { return real(stream, mode); });
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  auto* const real = GPUMAN_REAL_TWIN(cuStreamBeginCapture_v2, _ptsz);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : BeginIn([&] { return real(stream, mode); });
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependency_data, size_t num_dependencies,
                                     CUstreamCaptureMode mode) {
  auto* const real = GPUMAN_REAL(cuStreamBeginCaptureToGraph);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return BeginIn([&] { return real(stream, graph, dependencies, dependency_data, num_dependencies, mode); });
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* dependency_data, size_t num_dependencies,
                                          CUstreamCaptureMode mode) {
  auto* const real = GPUMAN_REAL_TWIN(cuStreamBeginCaptureToGraph, _ptsz);
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return BeginIn([&] { return real(stream, graph, dependencies, dependency_data, num_dependencies, mode); });
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  auto* const real = GPUMAN_REAL(cuStreamEndCapture);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED : EndIn(stream, [&] { return real(stream, graph); });
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  auto* const real = GPUMAN_REAL_TWIN(cuStreamEndCapture, _ptsz);
  return real == nullptr ? CUDA_ERROR_NOT_INITIALIZED
                         : EndIn(PerThread(stream), [&] { return real(stream, graph); });
}

}  // namespace hook

}  // namespace gpuman::shim
