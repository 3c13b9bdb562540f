#include "mover/copy_stream.h"

#include <chrono>
#include <thread>
#include <utility>

namespace gpuman::mover {

using base::Result;
namespace abi = driver::abi;

// The function's name (for errors) and its pointer.
#define GPUMAN_CALL(name, symbol) name, gpus_->driver_.calls().symbol

Result<CopyStream> CopyStream::Open(Gpus& gpus, int gpu, Direction direction) {
  GPUMAN_TRY(gpus.Use(gpu));
  CopyStream stream;
  stream.gpu_ = gpu;
  stream.direction_ = direction;
  GPUMAN_TRY(gpus.driver_.Invoke("cuStreamCreate", gpus.driver_.calls().cuStreamCreate, &stream.stream_,
                                 static_cast<unsigned>(abi::CU_STREAM_NON_BLOCKING)));
  stream.gpus_ = &gpus;
  return stream;
}

CopyStream& CopyStream::operator=(CopyStream&& other) noexcept {
  if (this == &other) return *this;
  Close();
  gpus_ = std::exchange(other.gpus_, nullptr);
  gpu_ = other.gpu_;
  direction_ = other.direction_;
  stream_ = other.stream_;
  marks_ = std::exchange(other.marks_, {});
  return *this;
}

void CopyStream::Close() {
  if (gpus_ == nullptr) return;
  const auto& cu = gpus_->driver_.calls();
  (void)gpus_->Use(gpu_);
  (void)cu.cuStreamSynchronize(stream_);
  for (const auto mark : marks_) (void)cu.cuEventDestroy_v2(mark);
  marks_.clear();
  (void)cu.cuStreamDestroy_v2(stream_);
  gpus_ = nullptr;
}

Result<> CopyStream::Add(std::span<const Copy> copies) {
  const auto& driver = gpus_->driver_;
  GPUMAN_TRY(gpus_->Use(gpu_));
  for (const Copy& copy : copies) {
    if (direction_ == Direction::kOut) {
      GPUMAN_TRY(driver.Invoke(GPUMAN_CALL("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2), copy.host, copy.device,
                               copy.bytes, stream_));
    } else if (copy.host == nullptr) {
      GPUMAN_TRY(driver.Invoke(GPUMAN_CALL("cuMemsetD8Async", cuMemsetD8Async), copy.device,
                               static_cast<unsigned char>(0), copy.bytes, stream_));
    } else {
      GPUMAN_TRY(driver.Invoke(GPUMAN_CALL("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2), copy.device, copy.host,
                               copy.bytes, stream_));
    }
  }
  return Mark();
}

Result<> CopyStream::AddAcross(const DeviceMemory& to, const DeviceMemory& from) {
  GPUMAN_TRY(gpus_->Use(gpu_));
  GPUMAN_TRY(gpus_->driver_.Invoke(GPUMAN_CALL("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2), to.address(),
                                   from.address(), from.bytes(), stream_));
  return Mark();
}

Result<> CopyStream::Mark() {
  const auto& driver = gpus_->driver_;
  abi::CUevent mark = nullptr;
  // Not CU_EVENT_BLOCKING_SYNC: with about 60 such events in flight the next copy's call waits (measured).
  constexpr unsigned kPlain = abi::CU_EVENT_DISABLE_TIMING;
  GPUMAN_TRY(driver.Invoke(GPUMAN_CALL("cuEventCreate", cuEventCreate), &mark, kPlain));
  marks_.push_back(mark);
  return driver.Invoke(GPUMAN_CALL("cuEventRecord", cuEventRecord), mark, stream_);
}

Result<> CopyStream::Await() {
  constexpr std::chrono::microseconds kPollInterval{100};
  GPUMAN_TRY(gpus_->Use(gpu_));
  const auto& cu = gpus_->driver_.calls();
  // cuEventSynchronize would keep a processor busy.
  auto says = cu.cuEventQuery(marks_.front());
  for (; says == abi::CUDA_ERROR_NOT_READY; says = cu.cuEventQuery(marks_.front()))
    std::this_thread::sleep_for(kPollInterval);
  GPUMAN_TRY(driver::CudaDriver::Check("cuEventQuery", says));
  (void)cu.cuEventDestroy_v2(marks_.front());
  marks_.pop_front();
  return {};
}

}  // namespace gpuman::mover

#undef GPUMAN_CALL
