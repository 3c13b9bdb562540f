// Host memory for data that leaves the GPUs: files without a name, touched and registered with the driver,
// made ahead of need in the background.
//
// The process whose data are in a segment holds a descriptor of the segment too: so the data stay as long as
// the process lives, whatever happens to the mover. A segment cannot change its size.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "mover/gpus.h"
#include "mover/host_memory.h"
#include "mover/segment_plan.h"

namespace gpuman::mover {

inline constexpr char kSegmentFile[] = "gpuman-segment";
inline constexpr char kLayoutFile[] = "gpuman-layout";

// Move-only.
class Segment {
 public:
  // `node`: where its memory should be, as far as the kernel can; nullopt: anywhere.
  static base::Result<Segment> Make(std::uint64_t bytes, std::optional<int> node, const Gpus& gpus);
  // Opens a segment that an earlier mover made; it is not registered.
  static base::Result<Segment> Open(base::Fd file, std::uint64_t bytes);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // A descriptor to hand to another process. IsOursAlone is false until all of its duplicates and mappings
  // are gone.
  base::Result<base::Fd> OpenForOthers() const;
  // No other process can read or write the segment by a descriptor or mapping.
  bool IsOursAlone() const;
  std::uint64_t inode() const;
  std::uint64_t bytes() const { return bytes_; }
  std::optional<int> node() const { return node_; }
  std::uint8_t* at() const { return at_; }

 private:
  Segment() = default;
  base::Result<> MapIt();
  base::Fd file_;
  std::uint64_t bytes_ = 0;
  std::optional<int> node_;
  std::uint8_t* at_ = nullptr;
  const Gpus* registered_ = nullptr;
};

// Thread-safe.
class SegmentPool {
 public:
  // `has_room`: whether so many bytes of host memory may be taken; called from several threads.
  using HasRoom = std::function<bool(std::uint64_t bytes)>;
  explicit SegmentPool(Gpus& gpus, HasRoom has_room = HostHas);
  ~SegmentPool();
  SegmentPool(const SegmentPool&) = delete;
  SegmentPool& operator=(const SegmentPool&) = delete;

  // Takes segments of these sizes for copies of a GPU, near that GPU where there are some; makes those that
  // are not ready. Where the machine has no room for these, free segments of other sizes give way.
  // kExhausted: there is not enough host memory.
  base::Result<std::vector<Segment>> Take(int gpu, const std::vector<std::uint64_t>& sizes);
  void Give(std::vector<Segment> segments);
  // Makes segments for so many bytes of each process on each GPU ready in the background, as far as the
  // machine's memory allows; segments that are taken already count. Frees segments if the sum is much larger.
  // The GPUs get contexts.
  using Wanted = std::map<int, std::vector<std::uint64_t>>;
  // With `hashing` they get hashers as well.
  void Want(Wanted wanted, bool hashing = false);
  std::uint64_t free_bytes() const;

 private:
  using NodeId = std::optional<int>;
  struct Node {
    Stock taken, wanted;
    std::vector<Segment> free;
    Stock making{};           // by the thread, and nobody waits for them
    std::vector<int> gpus{};  // near GPUs for which memory is wanted
  };
  struct Job {
    NodeId node;
    int gpu = 0;
    std::uint64_t bytes = 0;
  };
  std::optional<Segment> TakeFree(NodeId node, std::uint64_t bytes);
  std::optional<Segment> AwaitMade(NodeId node, std::uint64_t bytes);
  base::Result<Segment> Make(NodeId node, std::uint64_t bytes);
  base::Result<Segment> MakeInPlaceOfFree(NodeId node, std::uint64_t bytes);
  std::optional<Segment> LargestFree();
  void Undo(NodeId node, std::uint64_t bytes);
  std::vector<Job> NextJobs() const;
  std::optional<Segment> NextSurplus();
  void MakeAll(const std::vector<Job>& jobs);
  void Prepare();

  Gpus& gpus_;
  const HasRoom has_room_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, made_;
  std::map<NodeId, Node> nodes_;
  Wanted wanted_;
  int gpu_ = 0;  // one that has a context, or gets one
  bool ending_ = false, refused_ = false, making_ = false, hashing_ = false;
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
