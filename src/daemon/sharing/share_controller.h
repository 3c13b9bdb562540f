// Jobs that share GPUs: carries what is seen of them into the scheduler (share/scheduler.h), and what it
// decides to their shims and movers.
//
//   ledgers (notify, samples) -- DemandIs, ActivityIs --+                 +-- Close, Open ---> ledgers
//   orders answered in ledgers -- GateClosed -----------+                 +-- Evict ---------> ledgers, mover
//   mover: take ----------------- MovedOut, OutDone ----+--> Scheduler ---+-- Bring, Grant --> mover
//   mover: load ----------------- Back, BackDone -------+                 +-- Report --------> events
//   samples of the driver ------- CapacityChanged ------+
//
// Memory that comes back is loaded by the mover while the job's gate is still shut, and handed to its
// processes when the job is opened: so a job is opened whole, and to call a way back off nothing is needed
// but to let the copy on the GPU go.
//
// A job has one owner at a time: while the suspend controller has it (it is *lent*), nothing is ordered from
// here, and a suspended job comes back with its gate shut and its memory in host memory; from then on it
// waits for its turn as any other.
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
#include "base/untrusted_socket.h"
#include "daemon/core/signal.h"
#include "daemon/sharing/shared_job.h"
#include "daemon/shims/answer_poll.h"
#include "daemon/shims/shim_channel.h"
#include "daemon/suspension/suspend_controller.h"
#include "share/scheduler.h"
#include "suspend/checkpointer.h"

namespace gpuman::daemon {

class ShareController {
 public:
  // All must outlive this object.
  ShareController(Core& core, ShimChannel& shims, SuspendController& suspension,
                  share::SchedulerSettings settings);
  ~ShareController();
  ShareController(const ShareController&) = delete;
  ShareController& operator=(const ShareController&) = delete;

  // A job does not give up its place, and this is to be done about it. Who listens may call back, but from
  // the loop later.
  Signal<const share::action::Escalate&> on_escalate;

  // Jobs may have come, gone, changed, or changed owners.
  void Reconcile();
  // GPUs were looked at.
  void OnSample();
  // A process has something to say.
  void OnNotify(base::JobId job);
  // A process of the job obeys an order. False: the job is the suspend controller's.
  bool PassOn(base::JobId job, base::ProcessId process, bool out, base::UntrustedSocket& connection);

  // Running jobs of --share that have a ledger.
  std::vector<SharedJob> SharedJobs() const;
  // Tells the job's event.
  void Tell(const share::action::Report& report);

  void SetSettings(share::SchedulerSettings settings);
  const share::SchedulerSettings& settings() const { return scheduler_.settings(); }
  share::Snapshot View() const { return scheduler_.View(clock_.Mono()); }
  // Who does not yield, and why: the job, or one that has what it waits for.
  std::optional<share::Scheduler::Obstacle> ObstacleOf(base::JobId job) const {
    return scheduler_.ObstacleOf(job);
  }
  // Of a job that takes part; false where it does not.
  bool IsLent(base::JobId job) const {
    const auto entry = entries_.find(job);
    return entry != entries_.end() && entry->second.job.lent;
  }

 private:
  struct Evicting {
    share::OrderId order = 0;
    std::set<base::ProcessId> ordered{};  // has not answered yet
    unsigned moving = 0;                  // at the movers
    std::string why{};
    base::Bytes host{};                                    // what the job will have in host memory
    std::map<base::ProcessId, std::string> from_movers{};  // why one of them could not
  };
  struct Load {
    std::string gpu;
    base::Bytes need{}, granted{}, came{};
    base::Bytes again{};  // of what came, that is copied anew and was told already
    bool done = false;
    int tries = 0;
  };
  struct Bringing {
    share::OrderId order = 0;
    std::map<base::ProcessId, Load> loads;
    bool stopping = false;
    unsigned securing = 0;
    std::string why;
  };
  // Room for an allocation that waits, and what the job counted when it was given.
  struct Promise {
    base::Bytes bytes, counted;
  };
  // What cannot leave, as believed; since when there seems to be more, and the least that there was then.
  struct Pinned {
    base::Bytes bytes, least;
    std::optional<base::MonoTime> grew;
  };
  struct Entry {
    SharedJob job;
    // kTaking: its gate is being shut before it joins, or joins again after the suspend controller had it.
    enum class Mode { kShared, kLent, kTaking } mode = Mode::kShared;
    std::optional<share::OrderId> close;    // not answered yet
    base::MonoTime take_until{};            // kTaking: it is let run then
    base::MonoTime ordered{};               // its gate, or to give memory up, last
    base::MonoTime answers_at{};            // to be looked at again
    std::string silence;                    // who of it does not answer; empty: nobody
    std::optional<base::MonoTime> opening;  // its processes have not answered yet; when they were told last
    std::map<std::string, Evicting> evicting;  // by GPU
    std::optional<Bringing> bringing;
    std::map<base::ProcessId, base::Bytes> loaded;  // with the mover, on the GPU
    std::map<base::ProcessId, std::uint64_t> completed;
    std::map<std::string, share::Demand> demand;  // as told last
    bool stale = true;                            // to be told anew all the same
    bool open = true;
    std::map<std::string, base::Bytes> granted;  // outstanding
    std::map<std::string, Promise> promised;
    std::optional<base::MonoTime> wants_fell;  // and nothing was taken of the room that was promised
    base::MonoTime offered{};
    bool offer = false;  // room that waits to be offered
    std::optional<base::MonoTime> deny_at;
    base::Bytes denied{};  // allocations of so much or more fail
    std::map<std::string, Pinned> pinned;
    int fruitless = 0;  // grants for an allocation since the job last grew
    base::Bytes counted_at_grant;
    share::Activity activity = share::Activity::kUnknown;
    ledger::Sharing told{};
  };

  // --- share_controller.cc
  void Join(SharedJob job);
  void Leave(base::JobId job);
  void Lend(Entry& entry);
  void TakeBack(Entry& entry);
  void Feed(const share::Event& event);
  void Perform(const share::Action& action);
  void Settle();
  Entry* Find(base::JobId job);
  std::vector<base::JobId> Jobs() const;
  void CheckSoon(base::JobId job);
  void Poll();
  void SetTimers();
  bool IsBusy(const Entry& entry) const;
  bool IsTakingRoom(const Entry& entry) const;
  bool AnswersSilently(const Entry& entry) const;
  base::Result<> Order(base::JobId job, base::ProcessId process, const ledger::Command& command);
  base::Result<unsigned> OrderAll(base::JobId job, const ledger::Command& command);
  void OnTime();

  // --- share_controller_orders.cc: gates, and what the ledgers answer
  void Open(Entry& entry);
  void Close(Entry& entry, share::OrderId order);
  void CheckOrders(Entry& entry);
  void CheckEvictions(Entry& entry);
  void CheckClosing(Entry& entry);
  void CheckOpening(Entry& entry);
  void OrderGates(Entry& entry, ledger::wire::OrderKind what);
  void JoinOpen(Entry& entry, std::string refused);
  void CheckTaking(Entry& entry, const std::vector<ledger::SlotStatus>& slots);
  void GiveUpTaking(Entry& entry, const std::vector<ledger::SlotStatus>& slots, const std::string& why);

  // --- share_controller_answers.cc: processes that take no orders up
  void CheckAnswers(Entry& entry);
  std::string WhySilent(const Entry& entry, const ledger::SlotStatus& slot) const;
  void LetGoOfSilent(Entry& entry, const std::vector<ledger::SlotStatus>& slots);

  // --- share_controller_moves.cc: out
  void Evict(Entry& entry, const share::action::Evict& order);
  void Take(base::JobId job, base::ProcessId process, base::UntrustedSocket connection);
  void GoOn(base::JobId job, base::ProcessId process, const std::string& gpu, share::OrderId order,
            int losses);
  void TakeEnded(base::JobId job, base::ProcessId process, const std::string& gpu, share::OrderId order,
                 const std::string& why);
  void EndEvicting(Entry& entry, const std::string& gpu);
  // Of what all jobs together may keep in host memory (suspend.host_memory): without what others have been
  // ordered to bring there; and what is there now.
  base::Bytes HostMemoryLeft() const;
  base::Bytes HostMemoryUnused() const;
  void Secure(const Entry& entry, base::ProcessId process, suspend::Checkpointer::Done done);
  // `act` with this object, as long as that is there.
  template <typename Act>
  auto IfHere(Act act) {
    return [weak = std::weak_ptr(self_), act](const auto&... given) {
      const auto self = weak.lock();
      if (self && *self) act(**self, given...);
    };
  }

  // --- share_controller_back.cc
  void Bring(Entry& entry, share::OrderId order);
  void StartLoad(base::JobId job, base::ProcessId process, base::Bytes room);
  void LoadCame(base::JobId job, base::ProcessId process, share::OrderId order, base::Bytes bytes);
  void LoadEnded(base::JobId job, base::ProcessId process, share::OrderId order,
                 const suspend::Answer& answer);
  void TryAgain(base::JobId job, base::ProcessId process, share::OrderId order);
  void StopBring(Entry& entry, std::string why);
  void EndBringing(Entry& entry);
  void GrantRoom(Entry& entry, const share::action::Grant& grant);

  // --- share_controller_demand.cc
  void Check(Entry& entry);
  using Demands = std::map<std::string, share::Demand>;  // by GPU
  base::Bytes MostWanted(const Entry& entry) const;
  void CheckDemand(Entry& entry, const std::vector<ledger::SlotStatus>& slots);
  std::set<std::string> CheckPromises(Entry& entry, Demands& demand);
  Demands DemandOf(const Entry& entry, const std::vector<ledger::SlotStatus>& slots) const;
  void CheckPinned(Entry& entry, Demands& demand) const;
  void TellActivity(Entry& entry, const std::vector<ledger::SlotStatus>& slots);
  void TellRoom();
  void TellSharing(Entry& entry);
  base::Bytes CountedOf(base::JobId job, const std::string& gpu) const;
  void SetCapacities();
  base::Bytes DriverOf(const std::string& gpu, base::Bytes shown);
  std::string GpuOf(const Entry& entry, const ledger::SlotStatus& slot) const;

  Core& core_;
  const base::Clock& clock_;
  ShimChannel& shims_;
  SuspendController& suspension_;
  suspend::Checkpointer& movers_;
  share::Scheduler scheduler_;
  std::map<base::JobId, Entry> entries_;
  std::map<std::string, base::Bytes> capacities_;          // told
  std::map<std::string, std::deque<base::Bytes>> driver_;  // of the GPU, beyond what processes have
  std::deque<share::Event> events_;                        // to be fed; what is done for one may cause others
  bool feeding_ = false;
  boost::asio::steady_timer turn_, poll_;
  bool polling_ = false;  // the timer runs, or what it has brought about is under way
  base::MonoTime poll_at_{};
  AnswerPoll answer_poll_;
  bool silent_ = false;  // somebody has an order whose shim will not tell that it has answered
  const base::MonoTime began_;
  // Callbacks that outlive this object find it gone.
  std::shared_ptr<ShareController*> self_;
};

}  // namespace gpuman::daemon
