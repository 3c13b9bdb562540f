// Copies in order on a CUDA stream, with a mark after each piece. Each direction has streams of its own, so
// that both run at the same time on the GPU's two copy engines.
#pragma once

#include <deque>
#include <span>

#include "base/result.h"
#include "mover/gpus.h"

namespace gpuman::mover {

// Move-only; for one thread at a time. The calls change that thread's current context. The destructor waits
// for the copies.
class CopyStream {
 public:
  static base::Result<CopyStream> Open(Gpus& gpus, int gpu, Direction direction);
  CopyStream(CopyStream&& other) noexcept { *this = std::move(other); }
  CopyStream& operator=(CopyStream&& other) noexcept;
  ~CopyStream() { Close(); }

  // Returns at once, however many copies have not begun.
  base::Result<> Add(std::span<const Copy> copies);
  // Copies from another GPU whose memory this stream's GPU may read.
  base::Result<> AddAcross(const DeviceMemory& to, const DeviceMemory& from);
  // Waits for the copies of the next piece, in the order of Add. An error holds for all later pieces too.
  base::Result<> Await();
  std::size_t waiting() const { return marks_.size(); }

 private:
  CopyStream() = default;
  void Close();
  base::Result<> Mark();
  Gpus* gpus_ = nullptr;
  int gpu_ = 0;
  Direction direction_ = Direction::kOut;
  driver::abi::CUstream stream_ = nullptr;
  std::deque<driver::abi::CUevent> marks_;
};

}  // namespace gpuman::mover
