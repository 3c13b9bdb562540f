// What the ranks tell each other on the host: memory that their parent maps before it forks them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "plan.h"

namespace gpuman::load {

// Any process, any thread.
class Board {
 public:
  // Maps a board and `windows_bytes` of memory behind it, shared with children; both stay until the process
  // ends. nullptr: there is no memory.
  static Board* Map(std::uint64_t windows_bytes);

  // Whether a rank has to run step `step`, from 1: not if the ranks are to stop and none has begun it.
  bool Begin(std::uint64_t step);
  // No rank begins a step that none has begun yet. All run the same number of steps in the end.
  void Stop() { steps_.fetch_or(kStop); }

  // The rank has queued all work of step `step`.
  void HasQueued(unsigned rank, std::uint64_t step) { queued_[rank].store(step); }
  // Waits until all of the `ranks` but `rank` have queued step `step`. The rank has begun it, so the others
  // do not stop before it.
  void AwaitOthersQueued(unsigned rank, unsigned ranks, std::uint64_t step) const;

  // Waits until all `ranks` have called it.
  void AwaitAll(unsigned ranks);

  void* windows() { return reinterpret_cast<unsigned char*>(this) + kPage; }

 private:
  static constexpr std::uint64_t kStop = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kPage = 65536;

  std::atomic<std::uint64_t> steps_{0};  // the largest number begun, and kStop
  std::atomic<unsigned> arrived_{0};
  std::array<std::atomic<std::uint64_t>, kMaxRanks> queued_{};  // the last step
};

}  // namespace gpuman::load
