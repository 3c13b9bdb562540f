// Events.
#include "sim/cuda/api.h"
#include "sim/cuda/event.h"
#include "sim/cuda/pool.h"

namespace gpuman::sim::cuda {
namespace {

constexpr unsigned kKnownFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

struct EventCall {
  EventCall(const char* function, CUevent handle, Need need = Need::kContext) : call(function, need) {
    event = call ? call.driver().events.Find(handle) : nullptr;
    error = !call ? call.error() : event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  }
  Call call;
  std::shared_ptr<Event> event;
  CUresult error;
};

CUresult Record(const char* function, CUevent handle, CUstream stream) {
  const EventCall call(function, handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  const StreamReference on = ResolveStream(call.call, stream);
  if (!on) return CUDA_ERROR_INVALID_HANDLE;
  Mark mark;
  {
    const std::lock_guard lock(call.event->mutex);
    auto reached = std::make_shared<std::atomic<std::uint64_t>>(0);
    auto capture = on.context->CaptureOf(on.stream);
    const CUresult queued = on.context->Enqueue(
        on.stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, [reached] { reached->store(MonotonicNs()); }, &mark);
    if (queued != CUDA_SUCCESS) return queued;
    call.event->capture = std::move(capture);
    call.event->recorded = true;
    call.event->mark = mark;
    call.event->reached_ns = std::move(reached);
  }
  if ((call.event->flags & CU_EVENT_BLOCKING_SYNC) != 0 && mark.stream != nullptr)
    mark.stream->AddBlockingEvent(mark.sequence);
  return CUDA_SUCCESS;
}

// The time of one event; NOT_READY if the stream has not reached it.
CUresult TimeOf(const EventCall& call, std::uint64_t& time) {
  if (call.error != CUDA_SUCCESS) return call.error;
  const std::lock_guard lock(call.event->mutex);
  if (!call.event->recorded || (call.event->flags & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  time = call.event->reached_ns->load();
  return time == 0 ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

// A program cannot query or wait for an event of a capture, nor for any event while a capture forbids it; the
// attempt invalidates the capture. The caller holds the event's mutex.
CUresult RefusedForCapture(const EventCall& call) {
  if (call.event->capture != nullptr) {
    call.event->capture->Invalidate();
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return call.call.driver().CaptureForbids(ThreadCaptureMode()) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                                : CUDA_SUCCESS;
}

}  // namespace

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  const Call call(__func__);
  if (!call) return call.error();
  if (event == nullptr || (flags & ~kKnownFlags) != 0 ||
      ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto created = std::make_shared<Event>();
  created->flags = flags;
  created->context = call.shared_context();
  *event = call.driver().events.Add(std::move(created));
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return Record(__func__, event, stream); }
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return flags > CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : Record(__func__, event, stream);
}

CUresult cuEventQuery(CUevent event) {
  const EventCall call(__func__, event);
  if (call.error != CUDA_SUCCESS) return call.error;
  const std::lock_guard lock(call.event->mutex);
  const CUresult refused = RefusedForCapture(call);
  if (refused != CUDA_SUCCESS) return refused;
  return call.event->mark.Reached() ? call.call.driver().fault() : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  const EventCall call(__func__, event);
  if (call.error != CUDA_SUCCESS) return call.error;
  Mark mark;
  {
    const std::lock_guard lock(call.event->mutex);
    const CUresult refused = RefusedForCapture(call);
    if (refused != CUDA_SUCCESS) return refused;
    mark = call.event->mark;
  }
  mark.Wait();
  call.call.driver().current_pool(call.call.device())->TrimToThreshold();
  return call.call.driver().fault();
}

CUresult cuEventDestroy_v2(CUevent event) {
  const Call call(__func__);
  if (!call) return call.error();
  return call.driver().events.Take(event) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  const EventCall from(__func__, start), to(__func__, end);
  if (milliseconds == nullptr) return from.call ? CUDA_ERROR_INVALID_VALUE : from.error;
  std::uint64_t began = 0, ended = 0;
  CUresult known = TimeOf(from, began);
  if (known == CUDA_SUCCESS) known = TimeOf(to, ended);
  if (known != CUDA_SUCCESS) return known;
  *milliseconds = static_cast<float>((static_cast<double>(ended) - static_cast<double>(began)) / 1e6);
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, start, end);
}

}  // namespace gpuman::sim::cuda
