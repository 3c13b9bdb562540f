// Jobs that share GPUs: tells the scheduler (share/scheduler.h) what their ledgers, movers and samples show,
// and carries the scheduler's decisions to their shims and movers.
//
//   ledgers (notify, samples) -- DemandChanged,
//                                ActivityChanged -----+                +-- Close, Open -----> ledgers
//   orders answered in ledgers -- GateClosed ---------+                +-- Evict -----------> ledgers, mover
//   mover: take ----------------- MovedOut, EvictDone +--> Scheduler --+-- Bring, Grant ----> mover
//   mover: load ----------------- MovedIn, BringDone -+                +-- EventReport -----> events
//   samples of the driver ------- CapacityChanged ----+
//
// The mover loads returning memory while the job's gate is still shut. The job's processes get that memory
// when the gate is opened, so the gate opens only when all of the job's memory is back. To cancel a return,
// the mover only has to free the copy on the GPU.
//
// Either this controller or the suspend controller gives a job orders. While the suspend controller does (the
// job is *withdrawn*), this controller gives none. A suspended job comes back with its gate shut and its
// memory in host memory; from then on it waits for its turn like any other job.
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
#include "daemon/shims/answer_poll_schedule.h"
#include "daemon/shims/job_quiescer.h"
#include "daemon/shims/shim_channel.h"
#include "daemon/suspension/suspend_controller.h"
#include "share/scheduler.h"
#include "suspend/checkpointer.h"

namespace gpuman::daemon {

class ShareController {
 public:
  // All must outlive this object.
  ShareController(Core& core, ShimChannel& shims, JobQuiescer& rest, SuspendController& suspension,
                  share::SchedulerSettings settings);
  ~ShareController();
  ShareController(const ShareController&) = delete;
  ShareController& operator=(const ShareController&) = delete;

  // A job does not give up its place; the argument says what to do about it. A listener may call this object
  // only later, from the loop.
  Signal<const share::action::Escalate&> on_escalate;

  // Call when jobs may have come, gone or changed, or when the suspend controller may have taken or returned
  // one.
  void Reconcile();
  // Call after new samples of GPUs.
  void OnSample();
  // Call when a process of the job has sent a notification.
  void OnNotify(base::JobId job);
  // A process of the job obeys an order and has sent its connection. False: the suspend controller has the
  // job.
  bool PassOn(base::JobId job, base::ProcessId process, bool out, base::UntrustedSocket& connection);

  // How a job that takes part has its GPUs at this moment; one that the suspend controller has is not there.
  struct Turn {
    bool runs = false;             // its gate is open, or its work is still coming to rest
    bool idle = false;             // it makes no call, or its calls wait: for room, or at the gate
    std::set<std::string> comes;   // GPUs to which its memory comes back
    std::set<std::string> leaves;  // that its memory leaves
  };
  std::map<base::JobId, Turn> Turns() const;
  // Turns may have changed. A listener may call this object only later, from the loop.
  Signal<> on_turns;

  // Running jobs with --share that have a ledger.
  std::vector<SharedJob> SharedJobs() const;
  // Whether any job takes part.
  bool HasJobs() const { return !entries_.empty(); }
  // Tells the report as an event of the job.
  void Tell(const share::action::EventReport& report);

  // Memory that jobs have been ordered to bring to host memory, and that is not there yet.
  base::Bytes HostMemoryComing() const;
  // Memory in host memory of jobs that have been ordered to bring it back.
  base::Bytes HostMemoryReturning() const;

  void SetSettings(share::SchedulerSettings settings);
  const share::SchedulerSettings& settings() const { return scheduler_.settings(); }
  share::Snapshot View() const { return scheduler_.View(clock_.Mono()); }
  // The job that does not yield, and why: `job` itself, or another that has the room that `job` waits for.
  std::optional<share::Scheduler::Obstacle> ObstacleOf(base::JobId job) const {
    return scheduler_.ObstacleOf(job);
  }
  // How far a job is that is being brought to rest, for its turn or by the suspend controller.
  std::optional<JobQuiescer::Progress> ProgressOf(base::JobId job) const { return rest_.ProgressOf(job); }
  // Whether the job takes part and the suspend controller has it.
  bool IsWithdrawn(base::JobId job) const {
    const auto entry = entries_.find(job);
    return entry != entries_.end() && entry->second.job.withdrawn;
  }

 private:
  // A process's memory of one GPU. It moves by itself: the mover has a transfer for it.
  struct ProcessGpu {
    base::ProcessId process;
    std::string gpu;
    auto operator<=>(const ProcessGpu&) const = default;
  };
  struct Evicting {
    share::OrderId order = 0;
    // Processes that have not answered yet, and how much of their memory of this GPU is to be away in all.
    std::map<base::ProcessId, base::Bytes> ordered{};
    unsigned moving = 0;  // transfers at the movers
    std::string why{};
    bool works = false;                                    // a process did not come to rest
    base::Bytes host{};                                    // what the job will have in host memory
    std::map<base::ProcessId, std::string> from_movers{};  // why a process could not be moved
  };
  // Memory that a process hands out by one connection: it is of one GPU, which the mover tells with its first
  // notice. Until then it may be of any GPU that the process was ordered to leave.
  struct Departure {
    base::JobId job;
    base::ProcessId process;
    std::map<std::string, share::OrderId> orders{};  // by GPU
    std::string gpu{};                               // as the mover names it; empty: not named yet
    bool taken = false;                              // the process has given the memory away
    base::Bytes moved{}, unchanged{};                // told so far
  };
  struct Load {
    std::string source;  // as the mover is asked for it: empty where the process has memory of one GPU only
    base::Bytes need{}, granted{}, came{};
    base::Bytes again{};   // bytes that are copied again, and of which the scheduler was already told
    base::Bytes copied{};  // in this try, as far as it was told
    bool done = false;
    int tries = 0;
  };
  struct Restore {
    share::OrderId order = 0;
    std::map<ProcessGpu, Load> loads;
    bool stopping = false;
    unsigned securing = 0;
    std::string why;
  };
  // Room that was promised to a waiting allocation, and the bytes that the job counted at that time.
  struct Promise {
    base::Bytes bytes, counted;
  };
  // Memory that cannot leave the GPU, as believed now; since when the figures show more, and the least that
  // they have shown since then.
  struct Pinned {
    base::Bytes bytes, least;
    std::optional<base::MonoTime> grew;
  };
  struct Entry {
    SharedJob job;
    // kTaking: the gate is being shut before the job joins, or before it joins again after it was withdrawn.
    enum class Mode { kShared, kWithdrawn, kTaking } mode = Mode::kShared;
    std::optional<share::OrderId> close;    // order to close that has no answer yet
    JobQuiescer::AttemptId rest = 0;        // the last attempt to shut the gate
    base::MonoTime ordered{};               // when the last order went out: to the gate, or to give up memory
    base::MonoTime answers_at{};            // when to check again for answers
    std::string silence;                    // which process does not answer; empty: all answer
    std::optional<base::MonoTime> opening;  // time of the last order; reset when all have answered
    std::map<std::string, Evicting> evicting;  // by GPU
    std::set<base::ProcessId> leaving;  // processes that are to leave a GPU, and have not been ordered yet
    std::optional<Restore> restore;
    std::map<ProcessGpu, base::Bytes> loaded;  // memory that the mover holds on the GPU
    std::map<base::ProcessId, std::uint64_t> completed;
    std::map<std::string, share::MemoryDemand> demand;  // as the scheduler was told last
    bool stale = true;  // tell the scheduler the demand even if it is unchanged
    bool open = true;
    // Closed in part: these processes run on, since their work does not come to rest. Their memory stays.
    std::set<base::ProcessId> at_work;
    bool in_part = false;                        // the order to close asks for no more
    std::map<std::string, base::Bytes> granted;  // outstanding
    std::map<std::string, Promise> promised;
    std::optional<base::MonoTime> wants_fell;  // when demand fell although no promised room was taken
    base::MonoTime offered{};
    bool offer = false;  // there is room to offer
    std::optional<base::MonoTime> deny_at;
    base::Bytes denied{};  // allocations of this size or more fail
    std::map<std::string, Pinned> pinned;
    int fruitless = 0;  // grants for an allocation since the job last grew
    base::Bytes counted_at_grant;
    share::TenantActivity activity = share::TenantActivity::kUnknown;
    ledger::SharingSettings sent{};
  };

  // --- share_controller.cc
  void Join(SharedJob job);
  void Leave(base::JobId job);
  void Withdraw(Entry& entry);
  void TakeBack(Entry& entry);
  void Feed(const share::Event& event);
  void Perform(const share::Action& action);
  void UpdateRoomAndTimers();
  Entry* Find(base::JobId job);
  std::vector<base::JobId> Jobs() const;
  void CheckSoon(base::JobId job);
  void Poll();
  void SetTimers();
  void ShowLife();
  bool IsBusy(const Entry& entry) const;
  bool IsTakingRoom(const Entry& entry) const;
  bool AnswersSilently(const Entry& entry) const;
  base::Result<> Order(base::JobId job, base::ProcessId process, const ledger::ProcessOrder& command);
  base::Result<unsigned> OrderAll(base::JobId job, const ledger::ProcessOrder& command);
  void OnTime();

  // --- share_controller_orders.cc: gates, and the answers in the ledgers
  void Open(Entry& entry);
  void Close(Entry& entry, const share::action::Close& order);
  void BringToRest(Entry& entry, base::Millis limit);
  void FindAtWork(Entry& entry);
  void OnRest(Entry& entry, const JobQuiescer::Result& result);
  void CheckOrders(Entry& entry);
  void CheckEvictions(Entry& entry);
  void CheckOpening(Entry& entry);
  void JoinOpen(Entry& entry, std::string refused);
  void JoinClosed(Entry& entry);
  void GiveUpTaking(Entry& entry, const JobQuiescer::Result& result);

  // --- share_controller_answers.cc: processes that do not take up orders
  void CheckAnswers(Entry& entry);
  std::string WhySilent(const Entry& entry, const ledger::SlotStatus& slot) const;
  void LetGoOfSilent(Entry& entry, const std::vector<ledger::SlotStatus>& slots);

  // --- share_controller_moves.cc: out
  void Evict(Entry& entry, const share::action::Evict& order);
  base::Bytes SecureLoaded(Entry& entry, const share::action::Evict& order);
  void OrderToLeave(Entry& entry);
  void Take(base::JobId job, base::ProcessId process, base::UntrustedSocket connection);
  void GoOn(const std::shared_ptr<Departure>& departure, int losses);
  // `named`: the GPU as the mover names it; only suspend::BareUuid of it counts. Empty: not named.
  void Name(Departure& departure, const std::string& named);
  void TellMovedOut(Departure& departure, const std::string& named, base::Bytes bytes, base::Bytes unchanged);
  void TakeEnded(const Departure& departure, const std::string& why);
  void TransferEnded(base::JobId job, const ProcessGpu& key, share::OrderId order, const std::string& why);
  void EndEvicting(Entry& entry, const std::string& gpu);
  // The rest of the host memory that all jobs together may use (suspend.host_memory). HostMemoryLeft also
  // subtracts memory that jobs have been ordered to bring there; HostMemoryUnused subtracts only memory that
  // is there now.
  base::Bytes HostMemoryLeft() const;
  base::Bytes HostMemoryUnused() const;
  void Secure(const Entry& entry, base::ProcessId process, const std::string& source,
              suspend::Checkpointer::Done done);
  // Returns a callback that calls `act` with this object if the object still exists.
  template <typename Act>
  auto IfHere(Act act) {
    return [weak = std::weak_ptr(self_), act](const auto&... given) {
      const auto self = weak.lock();
      if (self && *self) act(**self, given...);
    };
  }

  // --- share_controller_back.cc
  void Bring(Entry& entry, share::OrderId order);
  void StartLoad(base::JobId job, const ProcessGpu& key, base::Bytes room);
  void LoadCame(base::JobId job, const ProcessGpu& key, share::OrderId order, base::Bytes bytes,
                base::Bytes copied);
  void LoadEnded(base::JobId job, const ProcessGpu& key, share::OrderId order,
                 const suspend::MoverAnswer& answer);
  void TryAgain(base::JobId job, const ProcessGpu& key, share::OrderId order);
  void StopBring(Entry& entry, std::string why);
  void EndRestore(Entry& entry);
  void GrantRoom(Entry& entry, const share::action::MemoryGrant& grant);

  // --- share_controller_demand.cc
  void Check(Entry& entry);
  using Demands = std::map<std::string, share::MemoryDemand>;  // by GPU
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
  static std::string SourceName(const std::vector<ledger::EvictableGpu>& homes,
                                const ledger::EvictableGpu& home);

  Core& core_;
  const base::Clock& clock_;
  ShimChannel& shims_;
  JobQuiescer& rest_;
  SuspendController& suspension_;
  suspend::Checkpointer& movers_;
  share::Scheduler scheduler_;
  std::map<base::JobId, Entry> entries_;
  std::map<std::string, base::Bytes> capacities_;          // as the scheduler was told last
  std::map<std::string, std::deque<base::Bytes>> driver_;  // used memory of no process, latest figures
  std::deque<share::Event> events_;  // events for the scheduler; handling one may add others
  bool feeding_ = false;
  boost::asio::steady_timer turn_, poll_, life_;
  bool polling_ = false;       // the timer runs, or its handler does
  bool showing_life_ = false;  // likewise
  base::MonoTime poll_at_{};
  AnswerPollSchedule answer_poll_;
  bool silent_ = false;  // a process has an order, and its shim will send no notification of its answer
  const base::MonoTime began_;
  // Callbacks that outlive this object find it gone.
  std::shared_ptr<ShareController*> self_;
};

}  // namespace gpuman::daemon
