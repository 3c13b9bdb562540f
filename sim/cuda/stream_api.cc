// Streams.
#include <shared_mutex>

#include "sim/cuda/api.h"
#include "sim/cuda/event.h"
#include "sim/cuda/polling.h"
#include "sim/cuda/pool.h"

namespace gpuman::sim::cuda {
namespace {

struct StreamCall {
  StreamCall(const char* function, CUstream handle, Need need = Need::kContext) : call(function, need) {
    if (call) on = ResolveStream(call, handle);
    error = !call ? call.error() : !on ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  }
  Call call;
  StreamReference on;
  CUresult error;
};

CUresult Create(const char* function, CUstream* out, unsigned flags, int priority) {
  const Call call(function);
  if (!call) return call.error();
  if (out == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto handle = std::make_shared<StreamHandle>();
  handle->context = call.shared_context();
  handle->stream = call.context().AddStream(flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
  *out = call.driver().streams.Add(std::move(handle));
  return CUDA_SUCCESS;
}

// A program cannot wait for or query a capturing stream; the attempt invalidates the capture.
bool SpoilsCapture(const StreamCall& call) {
  const auto capture = call.on.context->CaptureOf(call.on.stream);
  if (capture != nullptr) capture->Invalidate();
  return capture != nullptr;
}

// A capture of another stream forbids it as well, depending on its mode and this thread's.
bool MayNotWait(const StreamCall& call) {
  return SpoilsCapture(call) || call.call.driver().CaptureForbids(ThreadCaptureMode());
}

// The legacy stream is done only when the blocking streams are: an empty operation waits for them.
CUresult MarkNow(const StreamCall& call, Mark& mark) {
  if (call.on.stream != call.on.context->legacy()) {
    mark = call.on.stream->Last();
    return CUDA_SUCCESS;
  }
  return call.on.context->Enqueue(
      call.on.stream, CU_GRAPH_NODE_TYPE_EMPTY, [] {}, &mark);
}

// Writes or awaits a value that kernels and the host may change at the same time.
template <typename T>
CUresult WriteValue(const StreamCall& call, CUdeviceptr address, T value) {
  Driver& driver = call.call.driver();
  if (address % sizeof(T) != 0 ||
      driver.memory.Check(address, sizeof(T), true) != AddressSpace::Lookup::kGood) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return call.on.context->Enqueue(call.on.stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [&driver, address, value] {
    const std::shared_lock execution(driver.execution);
    if (driver.memory.Check(address, sizeof(T), true) != AddressSpace::Lookup::kGood) {
      return driver.SetFault(CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    __atomic_store_n(reinterpret_cast<T*>(address), value, __ATOMIC_RELEASE);
  });
}

template <typename T>
bool Satisfied(T now, T value, unsigned flags) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    default:
      return static_cast<T>(~(now | value)) != 0;
  }
}

template <typename T>
CUresult WaitValue(const StreamCall& call, CUdeviceptr address, T value, unsigned flags) {
  Driver& driver = call.call.driver();
  if (address % sizeof(T) != 0 ||
      driver.memory.Check(address, sizeof(T), false) != AddressSpace::Lookup::kGood) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return call.on.context->Enqueue(
      call.on.stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [&driver, address, value, flags] {
        for (unsigned polls = 0; driver.fault() == CUDA_SUCCESS; ++polls) {
          {
            const std::shared_lock execution(driver.execution);
            if (driver.memory.Check(address, sizeof(T), false) != AddressSpace::Lookup::kGood) {
              return driver.SetFault(CUDA_ERROR_ILLEGAL_ADDRESS);
            }
            if (Satisfied(__atomic_load_n(reinterpret_cast<T*>(address), __ATOMIC_ACQUIRE), value, flags))
              return;
          }
          PauseBeforeNextPoll(0, polls);
        }
      });
}

}  // namespace

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) { return Create(__func__, stream, flags, 0); }
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return Create(__func__, stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  const Call call(__func__);
  if (!call) return call.error();
  const auto handle = call.driver().streams.Take(stream);
  if (handle == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  handle->context->RemoveStream(handle->stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = call.on.stream->priority();
  return CUDA_SUCCESS;
}
CUresult cuStreamGetFlags(CUstream stream, unsigned int* flags) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = call.on.stream->flags();
  return CUDA_SUCCESS;
}
CUresult cuStreamGetId(CUstream stream, unsigned long long* stream_id) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (stream_id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *stream_id = call.on.stream->id();
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* out) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = HandleOf<CUcontext>(call.on.context);
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green_ctx) {
  if (green_ctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *green_ctx = nullptr;
  return cuStreamGetCtx(stream, context);
}
CUresult cuStreamGetDevice(CUstream stream, CUdevice* device) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = call.on.context->device().ordinal();
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (MayNotWait(call)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Mark mark;
  const CUresult marked = MarkNow(call, mark);
  if (marked != CUDA_SUCCESS) return marked;
  mark.Wait();
  call.call.driver().current_pool(call.on.context->device())->TrimToThreshold();
  return call.call.driver().fault();
}

CUresult cuStreamQuery(CUstream stream) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (MayNotWait(call)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::vector<Mark> marks{call.on.stream->Last()};
  if (call.on.stream == call.on.context->legacy()) marks = call.on.context->Marks();
  for (const Mark& mark : marks) {
    const bool counts = mark.stream == call.on.stream || mark.stream->blocking();
    if (counts && !mark.Reached()) return CUDA_ERROR_NOT_READY;
  }
  return call.call.driver().fault();
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  const auto found = call.call.driver().events.Find(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  Mark mark;
  {
    const std::lock_guard lock(found->mutex);
    if (found->capture != nullptr) {
      // The stream joins the capture that the event was recorded in.
      call.on.context->JoinCapture(call.on.stream, found->capture);
      return CUDA_SUCCESS;
    }
    if (!found->recorded) return CUDA_SUCCESS;
    mark = found->mark;
  }
  if (mark.Reached()) return CUDA_SUCCESS;
  return call.on.context->Enqueue(call.on.stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, [] {}, nullptr,
                                  {std::move(mark)});
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* user_data,
                             unsigned int flags) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (SpoilsCapture(call)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Driver& driver = call.call.driver();
  return call.on.context->Enqueue(
      call.on.stream, CU_GRAPH_NODE_TYPE_HOST,
      [&driver, stream, callback, user_data] { callback(stream, driver.fault(), user_data); });
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr pointer, size_t, unsigned int flags) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  const auto allocation = call.call.driver().memory.FindAllocation(pointer);
  if (!allocation || allocation->kind != MemoryKind::kManaged || flags == 0 || flags > CU_MEM_ATTACH_SINGLE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst_stream, CUstream src_stream) {
  const StreamCall from(__func__, src_stream);
  return from.error != CUDA_SUCCESS ? from.error : StreamCall(__func__, dst_stream).error;
}
CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attr, CUstreamAttrValue* value) {
  const StreamCall call(__func__, stream);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = call.on.stream->priority();
  return CUDA_SUCCESS;
}
CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID, const CUstreamAttrValue* param) {
  const StreamCall call(__func__, stream);
  return call.error != CUDA_SUCCESS ? call.error : param == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int) {
  const StreamCall call(__func__, stream);
  return call.error != CUDA_SUCCESS ? call.error : WriteValue<std::uint32_t>(call, addr, value);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int) {
  const StreamCall call(__func__, stream);
  return call.error != CUDA_SUCCESS ? call.error : WriteValue<std::uint64_t>(call, addr, value);
}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  const StreamCall call(__func__, stream);
  return call.error != CUDA_SUCCESS ? call.error : WaitValue<std::uint32_t>(call, addr, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  const StreamCall call(__func__, stream);
  return call.error != CUDA_SUCCESS ? call.error : WaitValue<std::uint64_t>(call, addr, value, flags);
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* param_array,
                               unsigned int flags) {
  if (flags != 0 || (count > 0 && param_array == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const auto& wait = param_array[i].waitValue;
    CUresult done = CUDA_ERROR_NOT_SUPPORTED;
    switch (param_array[i].operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        done =
            cuStreamWaitValue32_v2(stream, wait.address, static_cast<cuuint32_t>(wait.value64), wait.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        done = cuStreamWaitValue64_v2(stream, wait.address, wait.value64, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        done =
            cuStreamWriteValue32_v2(stream, wait.address, static_cast<cuuint32_t>(wait.value64), wait.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        done = cuStreamWriteValue64_v2(stream, wait.address, wait.value64, wait.flags);
        break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        done = CUDA_SUCCESS;
        break;
      default:
        break;
    }
    if (done != CUDA_SUCCESS) return done;
  }
  return CUDA_SUCCESS;
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return cuStreamWriteValue32_v2(stream, addr, value, flags);
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return cuStreamWriteValue64_v2(stream, addr, value, flags);
}
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return cuStreamWaitValue32_v2(stream, addr, value, flags);
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return cuStreamWaitValue64_v2(stream, addr, value, flags);
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* param_array,
                            unsigned int flags) {
  return cuStreamBatchMemOp_v2(stream, count, param_array, flags);
}

}  // namespace gpuman::sim::cuda
