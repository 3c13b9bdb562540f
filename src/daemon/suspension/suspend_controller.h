// Jobs that leave the GPU and come back: carries what is observed and asked into each job's machine
// (suspend/state_machine.h), and what the machine orders to the shims, the driver and the store.
//
//   request ----------------------------+                   +--> OrderEvict, OrderReturn -> ledgers
//   samples, ledgers --- Observed ------+                   +--> Checkpoint, Restore -----> Checkpointer
//   gpuman-mover ------- Answered ------+--> state machine -+--> Secure, Load ------------> Checkpointer
//   gpuman-mover ------- MoverAnswered -+                   +--> record (stored first), events
//   free memory -------- Room ----------+
//
// A process whose shim obeys an order comes with a connection, which goes to the mover (PassOn).
//
// Lives on the event loop; not thread-safe.
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

#include "base/clock.h"
#include "base/ids.h"
#include "base/process.h"
#include "base/result.h"
#include "daemon/answer_poll.h"
#include "ledger/ledgers.h"
#include "suspend/checkpointer.h"
#include "suspend/returning.h"
#include "suspend/state_machine.h"

namespace gpuman::daemon {

struct Movable {
  base::JobId job;
  suspend::MoverUser user;
  std::string gpu;
  base::Bytes bytes;
};

// What the suspend controller needs of the daemon. Called on the loop; may not call back into the suspend
// controller but from the loop later.
class SuspendControllerHost {
 public:
  virtual ~SuspendControllerHost() = default;
  // Everything of the job that has to do with a GPU: processes that are on one, that count in its ledger, or
  // that are named in `held` and live.
  virtual std::vector<suspend::ProcessView> ProcessesOf(base::JobId job,
                                                        const suspend::SuspensionRecord& record) = 0;
  virtual std::vector<suspend::GpuView> Gpus() = 0;
  // What jobs may take, by UUID: free memory without the guard's reserve.
  virtual suspend::BytesByGpu FreeMemory() = 0;
  // When that was looked at, by UUID.
  virtual std::map<std::string, base::MonoTime> SampledAt() = 0;
  virtual base::Result<> Order(base::JobId job, base::ProcessId process, const ledger::Command& command) = 0;
  virtual std::optional<suspend::MoverUser> OwnerOf(base::JobId job) = 0;
  // What could leave the GPUs by the shims, and what has: host memory is made ready for it.
  virtual std::vector<Movable> MovableMemory() = 0;
  // What a context takes of the GPU; 0: not known.
  virtual base::Bytes ContextCostOf(const std::string& gpu) = 0;
  virtual int PriorityOf(base::JobId job) = 0;
  // It takes turns with others on its GPU: its memory comes back with its turn (machine.h: returns_held).
  virtual bool TakesTurns(base::JobId job) = 0;
  // Host memory that the job's shims have already.
  virtual base::Bytes HostMemoryOf(base::JobId job) = 0;
  // The same of all others that are not suspended: what is away while it is another's turn.
  virtual base::Bytes HostMemoryOfTurns(base::JobId but) = 0;
  // Stores the record with the job; `done` when it is on the disk, or cannot be.
  virtual void SaveSuspension(base::JobId job, std::string record, std::function<void()> done) = 0;
  virtual void TellSuspension(base::JobId job, const suspend::action::Emit& event) = 0;
  // The job came back on this GPU, also where its way back failed afterwards: it counts there.
  virtual void OnMoved(base::JobId job, const std::string& gpu) = 0;
  // A phase that is not what it was; kRunning where nothing is known of the job any more.
  virtual void OnPhase(base::JobId job, suspend::SuspensionPhase phase) = 0;
};

struct SuspendControllerSettings {
  suspend::SuspensionSettings machine{};
  base::SizeSpec host_memory{{}, 50};  // of the host's, for all suspended jobs together
};

class SuspendController {
 public:
  // The job when it has come to rest, or why it did not get where it was asked to.
  using Done = std::function<void(base::Result<>)>;

  // All must outlive this object.
  SuspendController(boost::asio::io_context& loop, boost::asio::thread_pool& workers,
                    const base::Clock& clock, SuspendControllerHost& host, SuspendControllerSettings settings,
                    suspend::CheckpointerOptions checkpointer);

  void SetSettings(SuspendControllerSettings settings);

  // The job runs; `stored` is its record from an earlier daemon, empty: none. Nothing happens for a job that
  // is known.
  void Begin(base::JobId job, const std::string& stored);
  // It ends, is let go of, or its command was started anew.
  void End(base::JobId job);

  void Suspend(base::JobId job, suspend::event::SuspendAsked asked, Done done);
  // Done also when it waits for room: the record says so.
  void Resume(base::JobId job, std::optional<std::string> gpu, Done done);
  void Move(base::JobId job, const std::string& gpu, Done done);

  // A process of the job obeys an order, off its GPU or back.
  void PassOn(base::JobId job, base::ProcessId process, bool out, base::UntrustedSocket connection);

  // A process of the job has something new in its slot.
  void OnNotify(base::JobId job);

  // GPUs were looked at.
  void OnSample();

  // Moves memory for others, too.
  suspend::Checkpointer& movers() { return checkpointer_; }

  // Of a job that is not simply running; nullptr: it is.
  const suspend::SuspensionRecord* RecordOf(base::JobId job) const;

 private:
  enum class Goal { kOut, kBack, kElsewhere };
  struct Waiter {
    Goal goal;
    Done done;
    bool elsewhere = false;  // on a GPU that was named: one that runs where it was is not there
  };
  // While a job is on its way, its ledger is looked at so soon after an order.
  static constexpr base::Millis kAnswerPoll{3};
  struct Entry {
    suspend::SuspensionStateMachine machine;
    base::MonoTime back_since{};  // it wants back since then
    std::string stored{};
    std::deque<suspend::Actions> to_do{};  // after what is being stored
    bool storing = false;
    std::vector<Waiter> waiters{};
    std::unique_ptr<boost::asio::steady_timer> timer{};
    AnswerPoll poll{kAnswerPoll};
    bool on_the_way = false;
    bool silent = false;  // somebody has an order whose shim will not tell that it has answered
    suspend::SuspensionPhase told = suspend::SuspensionPhase::kRunning;
    suspend::BytesByGpu coming{};  // while it is on its way back
  };
  using Entries = std::map<base::JobId, Entry>;

  // A machine that knows what is there, for something that is about to be asked.
  Entry& EntryFor(base::JobId job);
  suspend::SuspensionSettings SettingsFor(base::JobId job);
  void Feed(base::JobId job, const suspend::Event& event);
  void Observe(base::JobId job);
  void Look(base::JobId job);
  void TellPhase(base::JobId job);
  void Refuse(base::JobId job, const char* kind, base::Error error,
              const base::Result<suspend::HostRoom>& room, Done done);
  void Pump(base::JobId job);
  base::Result<suspend::HostRoom> HostRoomFor(base::JobId job);
  void Checkpoint(base::JobId job, const suspend::action::Checkpoint& order);
  void Perform(base::JobId job, const suspend::Actions& actions);
  void AskMover(base::JobId job, suspend::Request request);
  void Prepare();
  void ForgetThoseBack(base::JobId job, const suspend::SuspensionRecord& record);
  // Another needed its place: until there is room again not even the mover's context is kept on the GPU for
  // it.
  bool IsPushedOff(base::JobId job) const;
  void AskDriver(base::JobId job, suspend::Request request);
  void AnswerWaiters(base::JobId job);
  void SetTimer(base::JobId job);
  // What one takes that is not there and has to be.
  void AddMover(base::JobId job, suspend::BytesByGpu& needs);
  void OfferRoom();
  static suspend::BytesByGpu Coming(const suspend::SuspensionRecord& record);
  void DropIfDone(base::JobId job);

  boost::asio::io_context& loop_;
  const base::Clock& clock_;
  SuspendControllerHost& host_;
  SuspendControllerSettings settings_;
  suspend::Checkpointer checkpointer_;
  Entries entries_;
  std::set<suspend::MoverUser> prepared_;  // have host memory made ready
  base::MonoTime prepare_at_{};
  suspend::RoomSince room_since_;
  suspend::Arrivals arrivals_;
  // Callbacks that outlive this object find it gone.
  std::shared_ptr<SuspendController*> self_;
};

}  // namespace gpuman::daemon
