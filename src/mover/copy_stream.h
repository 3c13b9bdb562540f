// Copies in order on a stream of their own, with a mark after each piece: what goes out and what comes in run
// on the GPU's two copy engines at the same time, each on streams of its own.
#pragma once

#include <deque>
#include <span>

#include "base/result.h"
#include "mover/gpus.h"

namespace gpuman::mover {

// Move-only; for one thread at a time, whose current context it changes. Its end waits for the copies.
class CopyStream {
 public:
  static base::Result<CopyStream> Open(Gpus& gpus, int gpu, Direction direction);
  CopyStream(CopyStream&& other) noexcept { *this = std::move(other); }
  CopyStream& operator=(CopyStream&& other) noexcept;
  ~CopyStream() { Close(); }

  // Returns at once.
  base::Result<> Add(std::span<const Copy> copies);
  // From another GPU, which this stream's may read.
  base::Result<> AddAcross(const Memory& to, const Memory& from);
  // Until the first piece that was not waited for yet is copied. What fails fails for all that follow.
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
