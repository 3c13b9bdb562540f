// The daemon's way to the movers: requests for the driver's checkpoint queue here and go, in turns (turns.h),
// to a gpuman-mover of the right user, which is started when it is needed and stopped when it has had nothing
// to do for a while. What moves memory goes at once, any number at a time.
//
// What a mover takes from a process is held here as well, as descriptors, until it is whole in host memory or
// given back: should the mover die meanwhile, the next one goes on with it.
//
// A mover that stands still, dies, floods or lies costs its own user alone: each has limits and a queue of
// its own, the turn of the driver's calls has an end, and what is kept here of one user is bounded.
//
// Lives on the event loop: not thread-safe, nothing blocks, answers come from the loop and never from within
// Ask. Every request is answered exactly once, as long as the Checkpointer lives: a mover that dies, hangs
// or writes nonsense is killed and answers kLost, one that cannot be started, or cannot load the driver,
// kFailed or kUnsupported; the next request starts another.
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
#include <vector>

#include "base/closer.h"
#include "base/units.h"
#include "base/untrusted_socket.h"
#include "suspend/mover_link.h"
#include "suspend/mover_options.h"
#include "suspend/request.h"
#include "suspend/turns.h"

namespace gpuman::suspend {

struct CheckpointerOptions {
  MoverProgram program;
  base::Millis start_limit{30'000};     // until a new mover has loaded the driver
  base::Millis request_limit{180'000};  // 141 GiB at the 2.5 GB/s of an H200's checkpoint take one minute
  base::Millis idle_limit{600'000};     // a mover without requests is stopped
  base::Millis rest_limit{2'000};       // one that has a context: that is memory on the GPU
  TurnSettings turns{};
  // Of one user: descriptors that are held here, and processes' connections whose transfers are not over; of
  // one process the latter.
  std::size_t most_held = 16'384;
  std::size_t most_transfers = 1'024, most_of_process = 8;
};

class Checkpointer {
 public:
  using Done = std::function<void(const Answer&)>;
  // kTaken and kMoving; any number of times before Done. What has moved out by then is free.
  using Progress = std::function<void(const Answer&)>;

  // Loop and workers must outlive it.
  Checkpointer(boost::asio::io_context& loop, boost::asio::thread_pool& workers, CheckpointerOptions options);
  // Requests without an answer get none; movers end when they have done what they are at.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // The id of `request` is set here. kCan also starts the mover, which is worth doing ahead of time.
  void Ask(const MoverUser& user, Request request, Done done);

  // kTake, kSecure, kLoad, kGive; `connection` is the process's, for kTake and kGive. Answered as Ask does.
  // One that waits for room may take as long as it likes. kFailed, and the connection is closed, where the
  // process or its user has too many under way.
  void Move(const MoverUser& user, Request request, base::UntrustedSocket connection, Done done,
            Progress progress = {});
  // So much more room for the process's kLoad or kGive that was asked for with some. Nothing where its mover
  // has gone meanwhile: what was asked is answered kLost then.
  void Grant(const MoverUser& user, base::ProcessId process, base::Bytes bytes);
  // Host memory for so many bytes of the user's that may come, on this GPU or another. Above 0 the user's
  // mover stays, and is started ahead of need.
  void Prepare(const MoverUser& user, const std::string& gpu, base::Bytes bytes);

  // The user's mover has a context on the GPU and nothing to copy for now: it ends where it has nothing to
  // do, and the next request starts another.
  void Retire(const MoverUser& user);
  // All who have nothing to do, whatever they keep ready. Their pids: they end in a moment.
  std::set<pid_t> RetireIdle();

  // The process has all its memory, or wants none of it: what is left of it here and with the mover goes.
  void Forget(const MoverUser& user, const base::ProcessId& process);
  // What processes that have ended left here: their memory stays on the GPU as long as it is held.
  void ForgetDead();

  // Of that, what is ready and nobody's yet, as the mover said last.
  base::Bytes Prepared(const MoverUser& user) const;

  // Of the user's mover; nullopt: none runs.
  std::optional<pid_t> MoverPid(const MoverUser& user) const;
  std::set<pid_t> MoverPids() const;      // of all users'
  std::set<pid_t> IdleMoverPids() const;  // those that RetireIdle would send away

 private:
  struct Mover {
    std::shared_ptr<MoverLink> link;
    bool ready = false;
    bool has_moved = false;          // it has a context
    bool was_of_use = false;         // something was carried out
    std::optional<Answer> cannot{};  // checkpoint; it moves memory all the same
    std::unique_ptr<boost::asio::steady_timer> idle{};
    std::unique_ptr<boost::asio::steady_timer> start{};  // when it is started, then when it is to be ready
  };
  struct Pending {
    MoverUser user;
    Request request;
    Done done;
    enum class At { kHere, kInTurn, kSent } at = At::kHere;
    int losses = 0;  // movers that ended while it waited for its turn
    std::unique_ptr<boost::asio::steady_timer> limit{};
  };
  struct Transfer {
    MoverUser user{};
    Request request{};
    base::UntrustedSocket connection;
    Done done;
    Progress progress{};
    bool sent = false;
    bool taken = false;  // kTake: the process has given it up
    std::unique_ptr<boost::asio::steady_timer> limit;
  };
  // Descriptors of what the mover of that pid has taken, and has not all in host memory yet.
  struct Held {
    MoverUser user;
    pid_t by = 0;
    std::uint64_t take = 0;   // the request's id
    bool over = false;        // not needed once the transfer under way has its answer
    bool too_many = false;    // of its user's: nothing more is held of it
    std::uint64_t first = 0;  // the piece that is whose first
    std::deque<base::Fd> files;
  };

  // Does it from the loop, should this object live then.
  void Soon(std::function<void(Checkpointer&)> what);
  Mover& MoverOf(const MoverUser& user);
  void Start(const MoverUser& user, Mover& mover);
  void Admit(const MoverUser& user);
  void Pump();
  void Send(std::uint64_t id);
  void SendTransfers(const MoverUser& user);
  void FailTransfers(const MoverUser& user, const Answer& answer);
  void SetLimit(Transfer& transfer, std::uint64_t id);
  void OnNotice(std::uint64_t id, Transfer& transfer, const Answer& answer, std::vector<base::Fd> files);
  void Release(const Transfer& finished, std::uint64_t id, const Answer& answer);
  void FinishTransfer(std::uint64_t id, Answer answer);
  void SendDemand(const MoverUser& user);
  void OnAnswer(const MoverUser& user, const Answer& answer, std::vector<base::Fd> files);
  void OnGone(const MoverUser& user, const base::Error& error);
  void OnAnswerOf(std::uint64_t id, Transfer& transfer, const Answer& answer, std::vector<base::Fd> files);
  void FinishRequest(std::uint64_t id, Answer answer);
  void FailRequests(const MoverUser& user, const Answer& answer);
  void OfUse(const MoverUser& user);
  void CountDeath(const MoverUser& user);
  std::size_t HeldBy(const Party& party) const;
  bool HasRoomFor(const MoverUser& user, const base::ProcessId& process) const;
  void LetGo(std::map<base::ProcessId, Held>::iterator held);
  bool IsIdle(const MoverUser& user) const;
  void StopWhenIdle(const MoverUser& user);
  void StopNow(const MoverUser& user);

  boost::asio::io_context& loop_;
  boost::asio::thread_pool& workers_;
  const CheckpointerOptions options_;
  const std::shared_ptr<base::Closer> closer_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Pending> requests_;
  Turns turns_;
  boost::asio::steady_timer turn_;  // when others stop waiting for who has it
  std::map<MoverUser, Mover> movers_;
  // Movers that ended, one after the other, before they were of any use.
  struct Deaths {
    int count = 0;
    base::MonoTime last{};
  };
  std::map<Party, Deaths> deaths_;
  std::map<std::uint64_t, Transfer> transfers_;  // by the request's id
  std::map<base::ProcessId, Held> held_;
  struct Demand {
    std::string gpu;
    base::Bytes wanted{}, ready{};
  };
  std::map<MoverUser, Demand> demands_;
  // Posted work holds a weak reference, so that none of it outlives this object.
  std::shared_ptr<Checkpointer*> self_;
};

}  // namespace gpuman::suspend
