// Host memory for data that leaves the GPUs: files without a name, touched and registered with the driver,
// made ahead of need in the background.
//
// The process whose data are in a segment holds a descriptor of the segment too: so the data stay as long as
// the process lives, whatever happens to the mover. A segment cannot change its size.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "mover/gpus.h"

namespace gpuman::mover {

inline constexpr char kSegmentFile[] = "gpuman-segment";
inline constexpr char kLayoutFile[] = "gpuman-layout";

// Move-only.
class Segment {
 public:
  // kExhausted: the machine has too little memory available, with the numbers.
  static base::Result<Segment> Make(std::uint64_t bytes, const Gpus& gpus);
  // Opens a segment that an earlier mover made; it is not registered.
  static base::Result<Segment> Open(base::Fd file, std::uint64_t bytes);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  int file() const { return file_.get(); }
  std::uint64_t inode() const;
  std::uint64_t bytes() const { return bytes_; }
  std::uint8_t* at() const { return at_; }

 private:
  Segment() = default;
  base::Result<> MapIt();
  base::Fd file_;
  std::uint64_t bytes_ = 0;
  std::uint8_t* at_ = nullptr;
  const Gpus* registered_ = nullptr;
};

// Thread-safe.
class Pool {
 public:
  explicit Pool(Gpus& gpus);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Takes segments of these sizes; makes those that are not ready. kExhausted: there is not enough host
  // memory.
  base::Result<std::vector<Segment>> Take(const std::vector<std::uint64_t>& sizes);
  void Give(std::vector<Segment> segments);
  // Brings the sum of all segments, taken or not, to so many bytes in the background, as far as the machine's
  // memory allows; frees segments if the sum is much larger.
  void Want(std::uint64_t bytes, const std::string& gpu);
  std::uint64_t free_bytes() const;

 private:
  void Prepare();

  Gpus& gpus_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Segment> free_;
  std::uint64_t taken_ = 0, wanted_ = 0;
  std::string gpu_;
  bool ending_ = false, refused_ = false;
  std::thread thread_;
};

// Runs work(i) for all i below count, on up to eight processors.
template <typename Work>
void InParallel(std::size_t count, Work work) {
  constexpr std::size_t kMax = 8;
  const std::size_t threads =
      std::min({count, kMax, std::size_t{std::max(1u, std::thread::hardware_concurrency())}});
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i; (i = next++) < count;) work(i);
  };
  std::vector<std::thread> running;
  for (std::size_t i = 1; i < threads; ++i) running.emplace_back(run);
  run();
  for (auto& thread : running) thread.join();
}

}  // namespace gpuman::mover
