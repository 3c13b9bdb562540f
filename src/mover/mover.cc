#include "mover/mover.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "mover/driver_checkpointer.h"
#include "mover/identity.h"
#include "mover/packet.h"
#include "mover/process_memory.h"
#include "mover/thread_group.h"
#include "mover/transfer_progress_listener.h"
#include "suspend/request.h"

namespace gpuman::mover {
namespace {

using suspend::MoverAnswer;
using suspend::MoverOutcome;
using suspend::MoverRequest;
using suspend::Verb;

// As long as this object lives, no other mover of the user makes checkpoint calls.
class Turn {
 public:
  explicit Turn(bool lock) : lock_(lock) {
    while (lock_ && ::flock(suspend::kMoverLock, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Turn() {
    if (lock_) ::flock(suspend::kMoverLock, LOCK_UN);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  bool lock_;
};

bool Send(const MoverAnswer& answer, std::span<const int> files = {}) {
  return SendPacket(suspend::kMoverSocket, suspend::Serialize(answer) + "\n", files);
}

// Sends the notices of a request in progress: what has moved, at most once every few milliseconds for each
// GPU. Thread-safe.
class Notices : public TransferProgressListener {
 public:
  // `moved`: the daemon wants to know what has moved; `taken`: and when the process has given it away.
  Notices(std::uint64_t id, bool moved, bool taken) : id_(id), tells_moved_(moved), tells_taken_(taken) {}

  void Moved(const std::string& gpu, std::uint64_t bytes, std::uint64_t unchanged,
             std::size_t pieces) override {
    constexpr std::chrono::milliseconds kPause{4};
    if (!tells_moved_) return;
    const std::lock_guard lock(mutex_);
    GpuNotice& notice = notices_[gpu];
    notice.bytes += bytes;
    notice.unchanged += unchanged;
    notice.pieces = std::max<std::uint64_t>(notice.pieces, pieces);
    const auto now = std::chrono::steady_clock::now();
    if (bytes != 0 && now - notice.last < kPause) return;
    notice.last = now;
    Tell(gpu, notice);
  }
  // The pieces of what comes next are counted anew.
  void Taken(const std::string& gpu, std::uint64_t bytes) override {
    if (!tells_taken_) return;
    const std::lock_guard lock(mutex_);
    notices_[gpu].pieces = 0;
    Send({.id = id_, .outcome = MoverOutcome::kTaken, .bytes = {bytes}, .gpu = gpu});
  }
  void Holding(const std::string& gpu, std::span<const int> descriptors) override {
    Send({.id = id_, .outcome = MoverOutcome::kHolding, .gpu = gpu}, descriptors);
  }
  void Safe(const std::string& gpu) override {
    Send({.id = id_, .outcome = MoverOutcome::kHolding, .gpu = gpu});
  }
  // Tells the rest, before the answer.
  void Flush() {
    const std::lock_guard lock(mutex_);
    for (auto& [gpu, notice] : notices_)
      if (notice.bytes != 0) Tell(gpu, notice);
  }

 private:
  struct GpuNotice {
    std::chrono::steady_clock::time_point last{};
    std::uint64_t bytes = 0, unchanged = 0, pieces = 0;
  };
  void Tell(const std::string& gpu, GpuNotice& notice) const {
    Send({.id = id_,
          .outcome = MoverOutcome::kMoving,
          .bytes = {notice.bytes},
          .unchanged = {notice.unchanged},
          .pieces = notice.pieces,
          .gpu = gpu});
    notice.bytes = notice.unchanged = 0;
  }

  const std::uint64_t id_;
  const bool tells_moved_, tells_taken_;
  std::mutex mutex_;
  std::map<std::string, GpuNotice> notices_;
};

class Mover {
 public:
  Mover(const suspend::MoverOptions& options, DriverCheckpointer operations)
      : options_(options), operations_(std::move(operations)), gpus_(operations_.driver()), pool_(gpus_) {}

  void Run() {
    std::thread checkpoints([this] { Checkpoint(); });
    std::thread sweeper([this] { Sweep(); });
    std::thread checker([this] { CheckKept(); });
    while (auto packet = ReceivePacket(suspend::kMoverSocket)) {
      auto request = suspend::ParseRequest(packet->text);
      if (!request)
        Send({.outcome = MoverOutcome::kFailed, .message = request.error().message});
      else
        Begin(std::move(*request), std::move(packet->files));
    }
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
      // No daemon is left that could grant room or go on with memory that stayed on a GPU. So the mover
      // brings such memory to host memory: the memory that it has now, and then the memory that requests in
      // progress leave on a GPU.
      for (const auto& [process, memory] : memory_) memory->CallOff({});
    }
    for (int round = 0; round < 2; ++round) {
      {
        const std::lock_guard lock(mutex_);
        for (const auto& [process, memory] : memory_) workers_.Run([one = memory] { one->Finish({}, {}); });
      }
      workers_.Wait();
    }
    checkpoints.join();
    sweeper.join();
    checker.join();
  }

 private:
  void Begin(MoverRequest request, std::vector<base::Fd> files) {
    switch (request.verb) {
      case Verb::kPrepare:
        Prepare(request);
        return;
      case Verb::kHold:
        return MemoryOf(request.process)->Hold(request.source, request.first, std::move(files));
      case Verb::kGrant:
        return MemoryOf(request.process)->Grant(request.source, request.bytes);
      case Verb::kForget: {
        const std::lock_guard lock(mutex_);
        const auto found = memory_.find(request.process);
        if (found == memory_.end()) return;
        found->second->CallOff(request.source);
        const EvictionEpoch over = found->second->Forget();
        return workers_.Run(
            [memory = found->second, source = request.source, over] { memory->Drop(source, over); });
      }
      case Verb::kTake:
      case Verb::kSecure:
      case Verb::kLoad:
      case Verb::kGive: {
        const auto memory = MemoryOf(request.process);
        if (request.verb == Verb::kSecure) memory->CallOff(request.source);
        if (request.verb == Verb::kLoad) memory->Begin(request.source, request.room);
        if (request.verb == Verb::kGive) memory->Begin({}, request.room);
        const EvictionEpoch epoch = memory->epoch();
        return workers_.Run([this, request, memory, epoch, files = std::move(files)]() mutable {
          Perform(request, *memory, epoch, std::move(files));
        });
      }
      default: {
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(request));
        changed_.notify_all();
      }
    }
  }

  // A kept copy is a part of the host memory that its piece will need: it never makes that more.
  void Prepare(const MoverRequest& request) {
    SegmentPool::Wanted wanted = WantedOf(request);
    std::uint64_t bytes = 0;
    for (const auto& [gpu, processes] : wanted)
      for (const std::uint64_t one : processes) bytes += one;
    const bool off = request.unchanged == base::ChangeDetection::kOff;
    hashing_.Set(request.unchanged, request.hash_from.count);
    check_kept_ = request.check_kept;
    kept_.SetLimit(off ? 0 : std::min(bytes, request.keep.value_or(base::Bytes{bytes}).count));
    pool_.Want(std::move(wanted), !off);
    const base::Bytes kept{kept_.bytes()};
    Send({.id = request.id,
          .outcome = MoverOutcome::kDone,
          .message = WhyNotHashed(),
          .bytes = base::Bytes{pool_.free_bytes()} + kept,
          .kept = kept,
          .damaged = damaged_.exchange(0)});
  }

  // Empty: each GPU that was asked for a hash gives one.
  std::string WhyNotHashed() {
    std::string why;
    for (const auto& [gpu, error] : gpus_.HasherErrors())
      why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", gpus_.UuidOf(gpu).value_or("a GPU"),
                         error.message);
    return why;
  }

  // A daemon that knows of one GPU for each process names it.
  SegmentPool::Wanted WantedOf(const MoverRequest& request) const {
    SegmentPool::Wanted wanted;
    for (const auto& [uuid, processes] : request.each) {
      const auto gpu = gpus_.Find(uuid);
      if (!gpu) continue;
      for (const base::Bytes bytes : processes) wanted[*gpu].push_back(bytes.count);
    }
    if (request.each.empty() && request.bytes.count != 0)
      wanted[gpus_.Find(request.gpu).value_or(0)] = {request.bytes.count};
    return wanted;
  }

  // Makes the driver's checkpoint calls, one after the other.
  void Checkpoint() {
    for (;;) {
      MoverRequest request;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
        if (queue_.empty()) return;
        request = std::move(queue_.front());
        queue_.pop_front();
      }
      const Turn turn(options_.lock);
      Send(operations_.Perform(request));
    }
  }

  std::shared_ptr<ProcessMemory> MemoryOf(const base::ProcessId& process) {
    const std::lock_guard lock(mutex_);
    auto& memory = memory_[process];
    if (!memory) memory = std::make_shared<ProcessMemory>(process, gpus_, pool_, free_list_, kept_, hashing_);
    return memory;
  }

  void Perform(const MoverRequest& request, ProcessMemory& memory, EvictionEpoch epoch,
               std::vector<base::Fd> files) {
    const bool connected = files.size() == 1;
    Notices notices(request.id, request.verb != Verb::kTake || request.whole, request.whole);
    MoverAnswer answer{.outcome = MoverOutcome::kFailed, .message = "a connection has to come with it"};
    switch (request.verb) {
      case Verb::kTake:
        if (connected) answer = memory.Take(std::move(files[0]), request.whole, request.gpu, epoch, notices);
        break;
      case Verb::kGive:
        if (connected) answer = memory.Give(std::move(files[0]), request.gpu, notices);
        break;
      case Verb::kSecure:
        answer = memory.Secure(request.source, request.gpu, notices);
        break;
      default:
        answer = memory.Load(request.source, request.gpu, notices);
        break;
    }
    notices.Flush();
    // Another mover can go on with the memory that is held here; this process cannot go on.
    if (answer.outcome == MoverOutcome::kFailed && gpus_.IsLost()) ::_exit(1);
    answer.id = request.id;
    Send(answer);
    // The mover copies it even if no request for it comes: the process has given the memory away.
    if (request.verb == Verb::kTake && answer.outcome == MoverOutcome::kDone && !request.whole)
      memory.Finish(answer.gpu, request.gpu);
  }

  // Reads kept copies in the background: 2 MiB each 2 ms, a tenth of a processor, 1 GB/s.
  void CheckKept() {
    constexpr std::chrono::milliseconds kPause{2}, kLongest{1'000};
    const auto pause = [this](std::chrono::milliseconds longest) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, longest, [this] { return ending_; });
      return !ending_;
    };
    const auto go_on = [&] { return pause(kPause); };
    while (pause(std::min(check_kept_.load(), kLongest))) {
      const auto due = KeptCopiesBudget::Clock::now() - check_kept_.load();
      while (go_on()) {
        const auto checked = kept_.CheckOldest(gpus_.hash_key(), due, go_on);
        if (!checked) break;
        damaged_ += checked->damaged;
      }
    }
  }

  // Drops the memory of processes that ended while it was away.
  void Sweep() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      changed_.wait_for(lock, std::chrono::milliseconds(500));
      std::vector<std::shared_ptr<ProcessMemory>> gone;
      for (auto it = memory_.begin(); it != memory_.end();) {
        const bool alive = base::IsAlive(it->first);
        if (!alive) gone.push_back(it->second);
        it = alive ? std::next(it) : memory_.erase(it);
      }
      lock.unlock();
      for (const auto& memory : gone) {
        memory->CallOff({});
        memory->End();
      }
      lock.lock();
    }
  }

  const suspend::MoverOptions options_;
  const DriverCheckpointer operations_;
  Gpus gpus_;
  GpuMemoryFreeList free_list_;
  SegmentPool pool_;
  KeptCopiesBudget kept_;
  HashingRule hashing_;
  std::atomic<base::Millis> check_kept_ = suspend::kCheckKept;
  std::atomic<std::uint64_t> damaged_ = 0;  // chunks of kept copies; told with the next answer to kPrepare
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<MoverRequest> queue_;
  std::map<base::ProcessId, std::shared_ptr<ProcessMemory>> memory_;
  bool ending_ = false;
  ThreadGroup workers_;  // the last: they need the others
};

// A mover holds thousands of descriptors.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int Run(const suspend::MoverOptions& options) {
  KeepOthersOut();
  ResetSignals();
  RaiseDescriptorLimit();
  if (options.user) {
    if (const auto become = Become(*options.user); !become) {
      Send({.outcome = MoverOutcome::kFailed, .message = become.error().message});
      return 1;
    }
  }
  DriverCheckpointer operations = DriverCheckpointer::WithDriver();
  const MoverAnswer can = operations.Perform({});
  if (!Send(can)) return 1;
  if (!operations.HasDriver()) return 0;
  Mover(options, std::move(operations)).Run();
  return 0;
}

}  // namespace gpuman::mover
