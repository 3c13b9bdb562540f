// What the ranks tell each other on the host: memory that their parent maps before it forks them.
#pragma once

#include <atomic>
#include <cstdint>

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

  // Waits until all `ranks` have called it.
  void AwaitAll(unsigned ranks);

  void* windows() { return reinterpret_cast<unsigned char*>(this) + kPage; }

 private:
  static constexpr std::uint64_t kStop = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kPage = 65536;

  std::atomic<std::uint64_t> steps_{0};  // the largest number begun, and kStop
  std::atomic<unsigned> arrived_{0};
};

}  // namespace gpuman::load
