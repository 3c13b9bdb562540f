// The daemon's way to the movers. Requests for the driver's checkpoint queue here and go, in turns
// (checkpoint_queue.h), to a gpuman-mover of the right user. The Checkpointer starts a mover when it is
// needed and stops it when the mover has had nothing to do for a while. Requests that move memory go at once,
// any number at a time.
//
// The Checkpointer also holds the memory that a mover takes from a process, as descriptors, until that memory
// is whole in host memory or given back: if the mover dies meanwhile, the next mover goes on with the memory.
//
// A mover that hangs, dies, sends too much or sends wrong answers harms only its own user: each user has
// limits and a queue of its own, a turn for the driver's calls ends after a time, and the Checkpointer keeps
// only a bounded amount for one user.
//
// Lives on the event loop: not thread-safe, nothing blocks, answers come from the loop and never from within
// Ask. Every request is answered exactly once, as long as the Checkpointer lives. The Checkpointer kills a
// mover that hangs or writes nonsense; the requests of such a mover, and of one that dies, get kLost.
// Requests get kFailed where no mover can be started, and kUnsupported where it cannot load the driver; the
// next request starts another.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/closer.h"
#include "base/units.h"
#include "base/untrusted_socket.h"
#include "base/weak_self.h"
#include "suspend/checkpoint_queue.h"
#include "suspend/mover_link.h"
#include "suspend/mover_options.h"
#include "suspend/request.h"

namespace gpuman::suspend {

struct CheckpointerOptions {
  MoverPaths program;
  // Gets each mover that is started, before the mover gets its first request.
  std::function<void(const base::ProcessId&)> on_started{};
  // In this process so many chunks had changed although their hashes were equal
  // (base::ChangeDetection::kCompare).
  std::function<void(const base::ProcessId&, std::uint64_t chunks)> on_misjudged{};
  // This mover cannot find out on some GPU what has changed, and copies all memory of it; `why` is the
  // mover's sentence. Once for each mover.
  std::function<void(const MoverUser&, const std::string& why)> on_not_hashed{};
  // The machine has damaged so many chunks of copies that this user's mover keeps; they are copied anew.
  std::function<void(const MoverUser&, std::uint64_t chunks)> on_damaged{};
  base::Millis check_kept = kCheckKept;  // as MoverRequest::check_kept
  base::Millis start_limit{30'000};      // until a new mover has loaded the driver
  base::Millis request_limit{180'000};   // 141 GiB at the 2.5 GB/s of an H200's checkpoint take one minute
  base::Millis idle_limit{600'000};      // a mover without requests is stopped
  base::Millis rest_limit{2'000};        // the same for a mover with a context, which takes memory on the GPU
  CheckpointQueueSettings turns{};
  // Bounds for one user: the descriptors that the Checkpointer holds, and the connections of processes whose
  // transfers are not over. `most_of_process`: such connections of one process, eight for each of eight GPUs.
  // `most_gpus`: the GPUs of one process that a mover may name.
  std::size_t most_held = 16'384;
  std::size_t most_transfers = 1'024, most_of_process = 64;
  std::size_t most_gpus = 32;
};

class Checkpointer {
 public:
  using Done = std::function<void(const MoverAnswer&)>;
  // kTaken and kMoving; any number of times before Done. The bytes that have moved out by then are free on
  // the GPU that the notice names.
  using Progress = std::function<void(const MoverAnswer&)>;

  // `loop` and `workers` must outlive the Checkpointer.
  Checkpointer(boost::asio::io_context& loop, boost::asio::thread_pool& workers, CheckpointerOptions options);
  // Requests without an answer get none; movers end when they have done what they are doing.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Sets the id of `request`. kCan also starts the mover, which is worth doing ahead of time.
  void Ask(const MoverUser& user, MoverRequest request, Done done);

  // For kTake, kSecure, kLoad, kGive; `connection`: the connection of the process, for kTake and kGive.
  // Answers as Ask does. A request that waits for room may take any time. If the process or its user has too
  // many transfers under way, the answer is kFailed and the connection is closed.
  void Move(const MoverUser& user, MoverRequest request, base::UntrustedSocket connection, Done done,
            Progress progress = {});
  // Gives `bytes` more room to the process's kLoad of this GPU, or to its kLoad or kGive of all GPUs where
  // `source` is empty, if that request has a `room`. Does nothing where the mover has ended meanwhile: the
  // answer to the request is kLost then.
  void Grant(const MoverUser& user, base::ProcessId process, const std::string& source, base::Bytes bytes);
  // Asks the user's mover to prepare host memory for memory that may come. While there is any, the mover is
  // started ahead of need and stays.
  // `keep`: the most bytes of copies that the mover may keep of memory that is on a GPU again; none: as many
  // as it prepares memory for.
  void Prepare(const MoverUser& user, HostDemand demand, std::optional<base::Bytes> keep = {});
  // Holds at once for all movers. `hash_from`: as Request::hash_from.
  void SetUnchanged(base::ChangeDetection how, base::Bytes hash_from = kWorthHashing);

  // The user's mover has a context on the GPU and nothing to copy for now: the mover ends if it has nothing
  // to do, and the next request starts another.
  void Retire(const MoverUser& user);
  // Tells all movers that have nothing to do and that no Prepare keeps to end. Returns their pids: they end
  // in a moment.
  std::set<pid_t> RetireIdle();

  // The process has all its memory, or wants none of it: releases the rest of that memory here and in the
  // mover.
  void Forget(const MoverUser& user, const base::ProcessId& process);
  // Releases the descriptors that ended processes left here: these keep the processes' memory on the GPU.
  void ForgetDead();

  // The part of the prepared memory that is ready and not in use, as the mover said last.
  base::Bytes Prepared(const MoverUser& user) const;
  // The copies that all movers keep, as they said last.
  base::Bytes Kept() const;

  // The pid of the user's mover; nullopt: none runs.
  std::optional<pid_t> MoverPid(const MoverUser& user) const;
  std::set<pid_t> MoverPids() const;      // of all users
  std::set<pid_t> IdleMoverPids() const;  // those that RetireIdle would end

 private:
  struct Mover {
    std::shared_ptr<MoverLink> link;
    bool ready = false;
    bool has_moved = false;   // it has a context
    bool was_of_use = false;  // it has carried out a request
    bool said_not_hashed = false;
    std::optional<MoverAnswer> cannot{};  // why it cannot checkpoint; it can still move memory
    std::unique_ptr<boost::asio::steady_timer> idle{};
    std::unique_ptr<boost::asio::steady_timer> start{};  // first until it is started, then until it is ready
  };
  struct Pending {
    MoverUser user;
    MoverRequest request;
    Done done;
    enum class At { kHere, kInTurn, kSent } at = At::kHere;
    int losses = 0;  // movers that ended while it waited for its turn
    std::unique_ptr<boost::asio::steady_timer> limit{};
  };
  struct Transfer {
    MoverUser user{};
    MoverRequest request{};
    base::UntrustedSocket connection;
    Done done;
    Progress progress{};
    bool sent = false;
    bool taken = false;  // kTake: the process has given its memory away
    std::unique_ptr<boost::asio::steady_timer> limit;
  };
  // The memory of one process of one GPU: the process, and the GPU's BareUuid; empty: the mover knows of one
  // GPU for each process only.
  using ProcessGpu = std::pair<base::ProcessId, std::string>;
  // Descriptors of memory that the mover with pid `by` has taken and that is not all in host memory yet.
  struct HeldDescriptors {
    MoverUser user;
    std::string gpu;  // as the mover calls it
    pid_t by = 0;
    std::uint64_t take = 0;  // the request's id
    bool over = false;       // the descriptors are not needed once the transfer under way has its answer
    bool too_many = false;  // its user has too many descriptors: the Checkpointer holds no more for this take
    std::uint64_t first = 0;  // the number of the piece that is first in `files`
    std::deque<base::Fd> files;
  };

  // Calls `what` from the loop, if the Checkpointer still lives then.
  void Soon(std::function<void(Checkpointer&)> what);
  Mover& MoverOf(const MoverUser& user);
  void Start(const MoverUser& user, Mover& mover);
  void Admit(const MoverUser& user);
  void Pump();
  void Send(std::uint64_t id);
  void SendTransfers(const MoverUser& user);
  void FailTransfers(const MoverUser& user, const MoverAnswer& answer);
  void SetLimit(Transfer& transfer, std::uint64_t id);
  void OnNotice(std::uint64_t id, Transfer& transfer, const MoverAnswer& answer, std::vector<base::Fd> files);
  void Release(const Transfer& finished, std::uint64_t id, const MoverAnswer& answer);
  void FinishTransfer(std::uint64_t id, MoverAnswer answer);
  void SendDemand(const MoverUser& user);
  void OnAnswer(const MoverUser& user, const MoverAnswer& answer, std::vector<base::Fd> files);
  void OnGone(const MoverUser& user, const base::Error& error);
  void OnAnswerOf(std::uint64_t id, Transfer& transfer, const MoverAnswer& answer,
                  std::vector<base::Fd> files);
  void FinishRequest(std::uint64_t id, MoverAnswer answer);
  void FailRequests(const MoverUser& user, const MoverAnswer& answer);
  void OfUse(const MoverUser& user);
  void CountDeath(const MoverUser& user);
  std::size_t HeldBy(const MoverLimitGroup& party) const;
  bool HasRoomFor(const MoverUser& user, const base::ProcessId& process) const;
  void OnHolding(std::uint64_t id, const Transfer& transfer, const MoverAnswer& answer,
                 std::vector<base::Fd> files);
  void PassOnHeld(MoverLink& link, std::uint64_t id, const base::ProcessId& process);
  bool IsOver(const ProcessGpu& key, const HeldDescriptors& held, const Transfer& finished, std::uint64_t id,
              const MoverAnswer& answer) const;
  // The entries of the process in `held_`.
  std::vector<ProcessGpu> HeldOf(const base::ProcessId& process) const;
  void LetGo(const ProcessGpu& key);
  bool IsIdle(const MoverUser& user) const;
  void StopWhenIdle(const MoverUser& user);
  void StopNow(const MoverUser& user);

  boost::asio::io_context& loop_;
  boost::asio::thread_pool& workers_;
  const CheckpointerOptions options_;
  const std::shared_ptr<base::Closer> closer_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Pending> requests_;
  CheckpointQueue turns_;
  boost::asio::steady_timer turn_;  // when other users stop waiting for the call that has the turn
  std::map<MoverUser, Mover> movers_;
  // Movers that ended in a row before they were of any use.
  struct Deaths {
    int count = 0;
    base::MonoTime last{};
  };
  std::map<MoverLimitGroup, Deaths> deaths_;
  std::map<std::uint64_t, Transfer> transfers_;  // by the request's id
  std::map<ProcessGpu, HeldDescriptors> held_;
  struct Demand {
    HostDemand each{};
    std::optional<base::Bytes> keep{};
    base::Bytes wanted{}, ready{}, kept{};
  };
  std::map<MoverUser, Demand> demands_;
  base::ChangeDetection unchanged_ = base::ChangeDetection::kHash;  // as kPrepare that names none
  base::Bytes hash_from_ = kWorthHashing;
  base::WeakSelf<Checkpointer> self_{this};
};

}  // namespace gpuman::suspend
