// What a step on a process's memory reports while it runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gpuman::mover {

// Steps call these functions from the threads of all transfers at the same time. `gpu`: the transfer's.
class TransferProgressListener {
 public:
  TransferProgressListener() = default;
  virtual ~TransferProgressListener() = default;
  TransferProgressListener(const TransferProgressListener&) = delete;
  TransferProgressListener& operator=(const TransferProgressListener&) = delete;

  // So many more bytes have left the GPU, or have come to it, and so many of them without a copy; on the way
  // out, `pieces` is the number of pieces of the batch that have left so far.
  virtual void Moved(const std::string& /*gpu*/, std::uint64_t /*bytes*/, std::uint64_t /*unchanged*/,
                     std::size_t /*pieces*/) {}
  // Gets descriptors, for another mover if this one dies; called before the process gives its memory away.
  // The descriptors stay the transfer's.
  virtual void Holding(const std::string& /*gpu*/, std::span<const int> /*descriptors*/) {}
  // All of the transfer's memory is whole in host memory: its descriptors are not needed any more.
  virtual void Safe(const std::string& /*gpu*/) {}
  // The process has given its memory away.
  virtual void Taken(const std::string& /*gpu*/, std::uint64_t /*bytes*/) {}
};

}  // namespace gpuman::mover
