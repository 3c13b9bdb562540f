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
#include "daemon/core/signal.h"
#include "daemon/shims/answer_poll.h"
#include "daemon/suspension/readings.h"
#include "ledger/ledgers.h"
#include "suspend/checkpointer.h"
#include "suspend/returning.h"
#include "suspend/state_machine.h"

namespace gpuman::daemon {

struct SuspendControllerSettings {
  suspend::SuspensionSettings machine{};
  base::SizeSpec host_memory{{}, 50};  // of the host's, for all suspended jobs together
};

class SuspendController {
 public:
  // The job when it has come to rest, or why it did not get where it was asked to.
  using Done = std::function<void(base::Result<>)>;

  // Both must outlive this object.
  SuspendController(Core& core, const ShimsModule& shims, SuspendControllerSettings settings,
                    suspend::CheckpointerOptions checkpointer);
  ~SuspendController();
  SuspendController(const SuspendController&) = delete;
  SuspendController& operator=(const SuspendController&) = delete;

  // Says whether a job takes turns with others on its GPU: its memory comes back with its turn
  // (state_machine.h: returns_held). Registered once.
  void SetTakesTurns(std::function<bool(base::JobId)> takes_turns) { takes_turns_ = std::move(takes_turns); }
  // The phase of a job is not what it was; kRunning where nothing is known of the job any more. Who listens
  // may call back, but from the loop later.
  Signal<base::JobId, suspend::SuspensionPhase> on_phase;

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

  const SuspensionReadings& readings() const { return readings_; }
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
              const base::Result<suspend::HostRoom>& room, const Done& done);
  void Pump(base::JobId job);
  base::Result<suspend::HostRoom> HostRoomFor(base::JobId job);
  void Checkpoint(base::JobId job, const suspend::action::Checkpoint& order);
  void Perform(base::JobId job, const suspend::Actions& actions);
  void AskMover(base::JobId job, suspend::Request request);
  void Order(base::JobId job, base::ProcessId process, ledger::wire::OrderKind what);
  void Save(base::JobId job, std::string record, std::function<void()> done);
  void Tell(base::JobId job, const suspend::action::Emit& event);
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

  // Host memory of all others that are not suspended: what is away while it is another's turn.
  base::Bytes HostMemoryOfTurns(base::JobId but) const;

  Core& core_;
  const ShimsModule& shims_;
  const SuspensionReadings readings_;
  std::function<bool(base::JobId)> takes_turns_;
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
