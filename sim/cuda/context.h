// A CUDA context: a program's objects on one device, its streams, and the order between them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "sim/cuda/capture.h"
#include "sim/cuda/device.h"
#include "sim/cuda/free_list.h"
#include "sim/cuda/stream.h"

namespace gpuman::sim::cuda {

class Context;

// What a CUstream points to.
struct StreamHandle {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
};

// The memory for small allocations of a context: parts of 2 MiB blocks, in steps of 512 bytes.
struct SmallBlocks {
  std::mutex mutex;
  std::map<std::uint64_t, GpuMemoryFreeList> blocks;  // by address
};

// Thread-safe. The destructor does nothing: Driver::DestroyContext releases the objects.
class Context : public std::enable_shared_from_this<Context> {
 public:
  Context(Device& device, unsigned flags, bool primary, std::uint64_t id)
      : device_(device), flags_(flags), primary_(primary), id_(id) {
    legacy_ = AddStream(CU_STREAM_DEFAULT, 0);
  }

  Device& device() const { return device_; }
  bool primary() const { return primary_; }
  std::uint64_t id() const { return id_; }
  unsigned flags() const { return flags_.load(); }
  void set_flags(unsigned flags) { flags_.store(flags); }
  bool destroyed() const { return destroyed_.load(); }
  bool MarkDestroyed() { return !destroyed_.exchange(true); }

  std::shared_ptr<Stream> AddStream(unsigned flags, int priority);
  void RemoveStream(const std::shared_ptr<Stream>& stream);
  const std::shared_ptr<Stream>& legacy() const { return legacy_; }
  std::shared_ptr<Stream> PerThread();

  // Queues work on a stream of this context, after the work that it has to wait for by the rules of the
  // default streams; adds it to the graph if the stream captures. `mark` (may be null) receives the work's
  // place; within a capture it is already reached.
  CUresult Enqueue(const std::shared_ptr<Stream>& stream, CUgraphNodeType type, std::function<void()> run,
                   Mark* mark = nullptr, std::vector<Mark> after = {});
  // Queues work that a capture must not contain, waits, and returns its result.
  CUresult EnqueueAndWait(const std::shared_ptr<Stream>& stream, std::function<CUresult()> run);

  CUresult BeginCapture(const std::shared_ptr<Stream>& stream, std::shared_ptr<Capture> capture);
  std::shared_ptr<Capture> CaptureOf(const std::shared_ptr<Stream>& stream);
  void JoinCapture(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Capture>& capture);
  // Ends the capture of all streams that joined it.
  void EndCapture(const std::shared_ptr<Capture>& capture);
  // Invalidates the captures of all streams; false when none captures.
  bool SpoilCaptures();

  // The last queued work of every stream.
  std::vector<Mark> Marks();
  void Synchronize();
  void CloseStreams();

  SmallBlocks small;
  std::array<std::atomic<std::size_t>, 10> limits{};  // by CUlimit
  std::atomic<std::uint32_t> peers{0};                // ordinals of devices whose memory kernels may touch
  std::atomic<std::uint64_t> overhead{0};             // bytes that the context itself uses

 private:
  Device& device_;
  std::atomic<unsigned> flags_;
  const bool primary_;
  const std::uint64_t id_;
  std::atomic<bool> destroyed_{false};
  std::mutex mutex_;  // guards the members below, and orders submissions
  std::shared_ptr<Stream> legacy_;
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread_;
  std::set<std::shared_ptr<Stream>> streams_;
};

}  // namespace gpuman::sim::cuda
