// Jobs that leave the GPU and come back: tells each job's state machine (suspend/state_machine.h) what is
// observed and asked, and carries the state machine's orders to the shims, the driver and the store.
//
//   request ----------------------------+                   +--> QuiesceJob -------------> JobQuiescer
//   JobQuiescer ------ JobQuiesced -----+                   +--> OrderEvict, OrderRestore -> ledgers
//   samples, ledgers --- Observed ------+                   +--> Checkpoint, RestoreCheckpoint -> Checkpointer
//   gpuman-mover ---- DriverAnswered ---+--> state machine -+--> CopyToHost, CopyToGpu --> Checkpointer
//   gpuman-mover ----- MoverAnswered ---+                   +--> record (stored first), events
//   free memory ----- RoomAvailable ----+
//
// A process whose shim obeys an order comes with a connection, which goes to the mover (PassOn).
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/steady_timer.hpp>
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
#include "base/weak_self.h"
#include "daemon/core/signal.h"
#include "daemon/shims/answer_poll_schedule.h"
#include "daemon/shims/job_quiescer.h"
#include "daemon/suspension/readings.h"
#include "ledger/ledgers.h"
#include "suspend/checkpointer.h"
#include "suspend/resume_choice.h"
#include "suspend/state_machine.h"

namespace gpuman::daemon {

struct SuspendControllerSettings {
  suspend::SuspensionSettings machine{};
  base::SizeSpec host_memory{{}, 50};  // share of the host's memory, for all suspended jobs together
};

class SuspendController {
 public:
  // Called when the job has reached the state that was asked for, or with the reason why it has not.
  using Done = std::function<void(base::Result<>)>;

  // Both must outlive this object.
  SuspendController(Core& core, const ShimsModule& shims, SuspendControllerSettings settings,
                    suspend::CheckpointerOptions checkpointer);
  SuspendController(const SuspendController&) = delete;
  SuspendController& operator=(const SuspendController&) = delete;

  // Sets the function that says whether a job takes turns with others on its GPU. The memory of such a job
  // comes back with its turn (state_machine.h: restores_held). Registered once.
  void SetTakesTurns(std::function<bool(base::JobId)> takes_turns) { takes_turns_ = std::move(takes_turns); }
  // Memory of jobs that take turns: on its way to the host, and on the host and on its way back to a GPU.
  struct TurnMoves {
    base::Bytes coming, restoring;
  };
  // Sets the function that tells it. Registered once.
  void SetTurnMoves(std::function<TurnMoves()> moves) { turn_moves_ = std::move(moves); }
  // The phase of a job has changed; kRunning also when this controller no longer knows the job. A listener
  // may call this object only later, from the loop.
  Signal<base::JobId, suspend::SuspensionPhase> on_phase;

  void SetSettings(SuspendControllerSettings settings);
  // Tells all movers what may come to the host, and what they may keep there. Done after samples, too; call
  // it before an order that brings memory to the host, so that kept copies give way.
  void PrepareMovers();

  // Call when the job runs. `stored`: its record from an earlier daemon; empty: none. A call for a known job
  // does nothing.
  void Begin(base::JobId job, const std::string& stored);
  // Call when the job ends, when gpuman releases it, or when a new run has begun.
  void End(base::JobId job);

  // Whether a suspension would be accepted now. Unlike Suspend it tells nobody where it would not.
  base::Result<> MaySuspend(base::JobId job);
  void Suspend(base::JobId job, suspend::event::SuspendAsked asked, Done done);
  // `done` is also called when the job has to wait for room; the record then says so.
  void Resume(base::JobId job, std::optional<std::string> gpu, Done done);
  void Move(base::JobId job, const std::string& gpu, Done done);

  // A process of the job obeys an order to move its memory off its GPU (`out`) or back, and has sent its
  // connection.
  void PassOn(base::JobId job, base::ProcessId process, ledger::TransferDirection direction,
              base::UntrustedSocket connection);

  // Call when a process of the job has sent a notification.
  void OnNotify(base::JobId job);

  // Call after new samples of GPUs.
  void OnSample();

  const SuspensionReadings& readings() const { return readings_; }
  // The share controller uses these movers, too.
  suspend::Checkpointer& movers() { return checkpointer_; }

  // nullptr: the job runs normally, and no suspension of it is in progress.
  const suspend::SuspensionRecord* RecordOf(base::JobId job) const;
  // What stays on the GPUs of a suspended job; of a job that runs, what would stay (suspend/would_stay.h).
  // nullopt: the job is on its way.
  std::optional<suspend::BytesByGpu> LeftOf(base::JobId job) const;

 private:
  enum class Goal { kOut, kBack, kElsewhere };
  struct Waiter {
    Goal goal;
    Done done;
    bool elsewhere = false;  // asked for a named GPU: a job that runs on its old GPU has not got there
  };
  // While a job is on its way, the first timed check of its ledger comes this long after an order.
  static constexpr base::Millis kAnswerPoll{3};
  struct Entry {
    suspend::SuspensionStateMachine machine;
    base::MonoTime back_since{};  // since when the job wants to come back
    // When it was taken from the store; absent: its processes have been seen since.
    std::optional<base::MonoTime> restored_at{};
    std::string stored{};
    std::deque<suspend::Actions> to_do{};  // actions to perform after the record is stored
    bool storing = false;
    std::vector<Waiter> waiters{};
    std::unique_ptr<boost::asio::steady_timer> timer{};
    AnswerPollSchedule poll{kAnswerPoll};
    JobQuiescer::AttemptId rest = 0;  // the last attempt to bring the job to rest
    bool on_the_way = false;
    // New figures of the GPUs were asked for, because the state machine waits for them.
    bool sampling = false;
    bool silent = false;  // a process has an order, and its shim will send no notification of its answer
    suspend::SuspensionPhase reported = suspend::SuspensionPhase::kRunning;
    suspend::BytesByGpu coming{};         // memory that the job still needs while it comes back
    std::optional<std::string> target{};  // the GPU to which it is on its way; absent: where it was
  };
  using Entries = std::map<base::JobId, Entry>;

  // Returns the job's entry, with a state machine that has observed the job's processes. Call it before a
  // request.
  Entry& EntryFor(base::JobId job);
  // After a restart: whether the job's ledger is found, and its GPUs are sampled.
  bool AreProcessesKnown(base::JobId job) const;
  suspend::SuspensionSettings SettingsFor(base::JobId job);
  void Feed(base::JobId job, const suspend::Event& event);
  void Observe(base::JobId job);
  void PollAnswers(base::JobId job);
  void TellPhase(base::JobId job);
  void Refuse(base::JobId job, const char* kind, base::Error error,
              const base::Result<suspend::HostRoom>& room, const Done& done);
  void Pump(base::JobId job);
  base::Result<suspend::HostRoom> HostRoomFor(base::JobId job);
  void Rest(base::JobId job, base::Millis limit);
  void AwaitFigures(base::JobId job);
  void Checkpoint(base::JobId job, const suspend::action::Checkpoint& order);
  void Perform(base::JobId job, const suspend::Actions& actions);
  void AskMover(base::JobId job, suspend::MoverRequest request);
  void Order(base::JobId job, base::ProcessId process, const ledger::ProcessOrder& command);
  void Save(base::JobId job, std::string record, std::function<void()> done);
  void Tell(base::JobId job, const suspend::action::Emit& event);
  void ForgetThoseBack(base::JobId job, const suspend::SuspensionRecord& record);
  // Whether the job was suspended because another needed its place. Until there is room again, not even the
  // mover's context stays on the GPU for it.
  bool IsPushedOff(base::JobId job) const;
  void AskDriver(base::JobId job, suspend::MoverRequest request);
  void AnswerWaiters(base::JobId job);
  void SetTimer(base::JobId job);
  // Adds the cost of a mover's context to each GPU in `needs` if the owner's mover does not run.
  void AddMover(base::JobId job, suspend::BytesByGpu& needs);
  void OfferRoom();
  static suspend::BytesByGpu Coming(const suspend::SuspensionRecord& record);
  void DropIfDone(base::JobId job);

  // Host memory that all jobs except `but` have, or are about to have because they are being suspended.
  base::Bytes HostMemoryInUse(const suspend::HostMemory& memory, base::JobId but) const;
  // What movers may keep of memory that is on a GPU again; none: no bound.
  using BytesByUser = std::map<suspend::MoverUser, base::Bytes>;
  std::optional<BytesByUser> MayKeep(const BytesByUser& wanted) const;
  // Host memory of all jobs except `but` that are not suspended: their memory that is off the GPU during
  // another job's turn.
  base::Bytes HostMemoryOfTurns(base::JobId but) const;

  Core& core_;
  const ShimsModule& shims_;
  const SuspensionReadings readings_;
  std::function<bool(base::JobId)> takes_turns_;
  std::function<TurnMoves()> turn_moves_;
  SuspendControllerSettings settings_;
  suspend::Checkpointer checkpointer_;
  Entries entries_;
  std::optional<bool> checkpoints_;        // whether the driver can checkpoint processes, once it was asked
  std::set<suspend::MoverUser> prepared_;  // users whose movers have prepared host memory
  base::MonoTime prepare_at_{};
  suspend::RoomSince room_since_;
  suspend::UnsampledMemoryTracker arrivals_;
  base::WeakSelf<SuspendController> self_{this};
};

}  // namespace gpuman::daemon
