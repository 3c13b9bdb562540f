#include "sim/cuda/context.h"

#include <utility>

namespace gpuman::sim::cuda {
namespace {

std::atomic<std::uint64_t> next_stream_id{1};

}  // namespace

std::shared_ptr<Stream> Context::AddStream(unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>(flags, priority, next_stream_id++);
  const std::lock_guard lock(mutex_);
  streams_.insert(stream);
  return stream;
}

void Context::RemoveStream(const std::shared_ptr<Stream>& stream) {
  // Queued work still runs, and the legacy stream still waits for it.
  stream->Close();
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [](const auto& other) { return other->Finished(); });
}

std::shared_ptr<Stream> Context::PerThread() {
  {
    const std::lock_guard lock(mutex_);
    const auto found = per_thread_.find(std::this_thread::get_id());
    if (found != per_thread_.end()) return found->second;
  }
  auto stream = AddStream(CU_STREAM_DEFAULT, 0);
  const std::lock_guard lock(mutex_);
  return per_thread_[std::this_thread::get_id()] = stream;
}

CUresult Context::Enqueue(const std::shared_ptr<Stream>& stream, CUgraphNodeType type,
                          std::function<void()> run, Mark* mark, std::vector<Mark> after) {
  const std::lock_guard lock(mutex_);
  if (mark != nullptr) *mark = {};
  if (stream->capture != nullptr) {
    if (stream->capture->invalidated()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture->Add(type, std::move(run));
    return CUDA_SUCCESS;
  }
  if (stream == legacy_) {
    for (const auto& other : streams_) {
      if (other == legacy_ || !other->blocking()) continue;
      if (other->capture != nullptr) {
        other->capture->Invalidate();
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
      Mark last = other->Last();
      if (!last.Reached()) after.push_back(std::move(last));
    }
  } else if (stream->blocking()) {
    Mark last = legacy_->Last();
    if (!last.Reached()) after.push_back(std::move(last));
  }
  Mark submitted = stream->Submit({std::move(after), std::move(run)});
  if (mark != nullptr) *mark = std::move(submitted);
  return CUDA_SUCCESS;
}

CUresult Context::EnqueueAndWait(const std::shared_ptr<Stream>& stream, std::function<CUresult()> run) {
  if (CaptureOf(stream) != nullptr) {
    CaptureOf(stream)->Invalidate();
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  auto result = std::make_shared<CUresult>(CUDA_SUCCESS);
  Mark mark;
  const CUresult queued = Enqueue(
      stream, CU_GRAPH_NODE_TYPE_EMPTY, [result, run = std::move(run)] { *result = run(); }, &mark);
  if (queued != CUDA_SUCCESS) return queued;
  mark.Wait();
  return *result;
}

CUresult Context::BeginCapture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Capture> capture) {
  const std::lock_guard lock(mutex_);
  if (stream == legacy_) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::move(capture);
  return CUDA_SUCCESS;
}

std::shared_ptr<Capture> Context::CaptureOf(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(mutex_);
  return stream->capture;
}

void Context::JoinCapture(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(mutex_);
  if (stream != legacy_) stream->capture = capture;
}

void Context::EndCapture(const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) {
    if (stream->capture == capture) stream->capture = nullptr;
  }
}

bool Context::SpoilCaptures() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& stream : streams_) {
    if (stream->capture == nullptr) continue;
    stream->capture->Invalidate();
    any = true;
  }
  return any;
}

std::vector<Mark> Context::Marks() {
  const std::lock_guard lock(mutex_);
  std::vector<Mark> marks;
  for (const auto& stream : streams_) marks.push_back(stream->Last());
  return marks;
}

void Context::Synchronize() {
  for (const Mark& mark : Marks()) mark.Wait();
}

void Context::CloseStreams() {
  const std::lock_guard lock(mutex_);
  for (const auto& stream : streams_) stream->Close();
}

}  // namespace gpuman::sim::cuda
