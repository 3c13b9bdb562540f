#include "mover/mover.h"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "mover/identity.h"
#include "mover/operations.h"
#include "mover/packet.h"
#include "mover/transfer.h"
#include "suspend/request.h"

namespace gpuman::mover {
namespace {

using suspend::Answer;
using suspend::Outcome;
using suspend::Request;
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

bool Send(const Answer& answer, std::span<const int> files = {}) {
  return SendPacket(suspend::kMoverSocket, suspend::Serialize(answer) + "\n", files);
}

// Sends the notices of a request in progress, at most one every few milliseconds.
class Notices {
 public:
  explicit Notices(std::uint64_t id) : id_(id) {}
  void Moved(std::uint64_t bytes, std::size_t pieces) {
    constexpr std::chrono::milliseconds kPause{4};
    bytes_ += bytes;
    pieces_ = std::max<std::uint64_t>(pieces_, pieces);
    const auto now = std::chrono::steady_clock::now();
    if (bytes != 0 && now - last_ < kPause) return;
    last_ = now;
    Flush();
  }
  void Flush() {
    Send({.id = id_, .outcome = Outcome::kMoving, .bytes = {bytes_}, .pieces = pieces_});
    bytes_ = 0;
  }
  // The pieces of what comes next are counted anew.
  void Taken(std::uint64_t bytes) {
    pieces_ = 0;
    Send({.id = id_, .outcome = Outcome::kTaken, .bytes = {bytes}});
  }
  bool any() const { return bytes_ != 0; }

 private:
  const std::uint64_t id_;
  std::chrono::steady_clock::time_point last_{};
  std::uint64_t bytes_ = 0, pieces_ = 0;
};

class Mover {
 public:
  Mover(const suspend::MoverOptions& options, Operations operations)
      : options_(options), operations_(std::move(operations)), gpus_(operations_.driver()), pool_(gpus_) {}

  void Run() {
    std::thread checkpoints([this] { Checkpoint(); });
    std::thread sweeper([this] { Sweep(); });
    while (auto packet = ReceivePacket(suspend::kMoverSocket)) {
      auto request = suspend::ParseRequest(packet->text);
      if (!request)
        Send({.outcome = Outcome::kFailed, .message = request.error().message});
      else
        Begin(std::move(*request), std::move(packet->files));
    }
    {
      std::unique_lock lock(mutex_);
      ending_ = true;
      changed_.notify_all();
      // No daemon is left that could grant room or go on with memory that stayed on a GPU. So the mover
      // brings such memory to host memory: the memory that it has now, and then the memory that requests in
      // progress leave on a GPU.
      for (const auto& [process, transfer] : transfers_) transfer->CallOff();
      for (int round = 0; round < 2; ++round) {
        for (const auto& [process, transfer] : transfers_) Work([one = transfer] { one->Finish({}); });
        changed_.wait(lock, [this] { return at_work_ == 0; });
      }
    }
    checkpoints.join();
    sweeper.join();
  }

 private:
  void Begin(Request request, std::vector<base::Fd> files) {
    switch (request.verb) {
      case Verb::kPrepare:
        pool_.Want(request.bytes.count, request.gpu);
        Send({.id = request.id, .outcome = Outcome::kDone, .bytes = {pool_.free_bytes()}});
        return;
      case Verb::kHold:
        return TransferOf(request.process)->Hold(request.first, std::move(files));
      case Verb::kGrant:
        return TransferOf(request.process)->Grant(request.bytes);
      case Verb::kForget: {
        const std::lock_guard lock(mutex_);
        const auto found = transfers_.find(request.process);
        if (found == transfers_.end()) return;
        found->second->CallOff();
        return Work([transfer = found->second] { transfer->Drop(); });
      }
      case Verb::kTake:
      case Verb::kSecure:
      case Verb::kLoad:
      case Verb::kGive: {
        const auto transfer = TransferOf(request.process);
        if (request.verb == Verb::kSecure) transfer->CallOff();
        if (request.verb == Verb::kLoad || request.verb == Verb::kGive) transfer->Begin(request.room);
        const std::lock_guard lock(mutex_);
        return Work([this, request, transfer, files = std::move(files)]() mutable {
          Perform(request, *transfer, std::move(files));
        });
      }
      default: {
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(request));
        changed_.notify_all();
      }
    }
  }

  // Runs `function` in a thread of its own. mutex_ is held.
  template <typename Function>
  void Work(Function function) {
    ++at_work_;
    std::thread([this, function = std::move(function)]() mutable {
      function();
      const std::lock_guard done(mutex_);
      --at_work_;
      changed_.notify_all();
    }).detach();
  }

  // Makes the driver's checkpoint calls, one after the other.
  void Checkpoint() {
    for (;;) {
      Request request;
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

  std::shared_ptr<Transfer> TransferOf(const base::ProcessId& process) {
    const std::lock_guard lock(mutex_);
    auto& transfer = transfers_[process];
    if (!transfer) transfer = std::make_shared<Transfer>(process, gpus_, pool_, free_list_);
    return transfer;
  }

  void Perform(const Request& request, Transfer& transfer, std::vector<base::Fd> files) {
    const bool connected = files.size() == 1;
    Notices notices(request.id);
    ProgressCallbacks tell;
    if (request.verb != Verb::kTake || request.whole)
      tell.moved = [&](std::uint64_t bytes, std::size_t pieces) { notices.Moved(bytes, pieces); };
    if (request.whole) tell.taken = [&](std::uint64_t bytes) { notices.Taken(bytes); };
    tell.holding = [&](std::span<const int> holding) {
      Send({.id = request.id, .outcome = Outcome::kHolding}, holding);
    };
    tell.safe = [&] { Send({.id = request.id, .outcome = Outcome::kHolding}); };
    Answer answer{.outcome = Outcome::kFailed, .message = "a connection has to come with it"};
    switch (request.verb) {
      case Verb::kTake:
        if (connected) answer = transfer.Take(std::move(files[0]), request.whole, request.gpu, tell);
        break;
      case Verb::kGive:
        if (connected) answer = transfer.Give(std::move(files[0]), request.gpu, tell);
        break;
      case Verb::kSecure:
        answer = transfer.Secure(request.gpu, tell);
        break;
      default:
        answer = transfer.Load(request.gpu, tell);
        break;
    }
    if (notices.any()) notices.Flush();
    // Another mover can go on with the memory that is held here; this process cannot go on.
    if (answer.outcome == Outcome::kFailed && gpus_.IsLost()) ::_exit(1);
    answer.id = request.id;
    Send(answer);
    // The mover copies it even if no request for it comes: the process has given the memory away.
    if (request.verb == Verb::kTake && answer.outcome == Outcome::kDone && !request.whole)
      transfer.Finish(request.gpu);
  }

  // Drops the transfers of processes that ended while their memory was away.
  void Sweep() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      changed_.wait_for(lock, std::chrono::milliseconds(500));
      std::vector<std::shared_ptr<Transfer>> gone;
      for (auto it = transfers_.begin(); it != transfers_.end();) {
        const bool alive = base::IsAlive(it->first);
        if (!alive) gone.push_back(it->second);
        it = alive ? std::next(it) : transfers_.erase(it);
      }
      lock.unlock();
      for (const auto& transfer : gone) {
        transfer->CallOff();
        transfer->Drop();
      }
      lock.lock();
    }
  }

  const suspend::MoverOptions options_;
  const Operations operations_;
  Gpus gpus_;
  FreeList free_list_;
  Pool pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  std::map<base::ProcessId, std::shared_ptr<Transfer>> transfers_;
  int at_work_ = 0;
  bool ending_ = false;
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
      Send({.outcome = Outcome::kFailed, .message = become.error().message});
      return 1;
    }
  }
  Operations operations = Operations::WithDriver();
  const Answer can = operations.Perform({});
  if (!Send(can)) return 1;
  if (!operations.HasDriver()) return 0;
  Mover(options, std::move(operations)).Run();
  return 0;
}

}  // namespace gpuman::mover
