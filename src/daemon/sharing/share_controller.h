// Jobs that share GPUs: tells the scheduler (share/scheduler.h) what their ledgers, movers and samples show,
// and carries the scheduler's decisions to their shims and movers.
//
//   ledgers (notify, samples) -- DemandChanged,
//                                ActivityChanged -----+                +-- Close, Open -----> ledgers
//   orders answered in ledgers -- GateClosed ---------+                +-- Evict -----------> MemoryEvictions
//   MemoryEvictions ------------- MovedOut, EvictDone +--> Scheduler --+-- Restore, Grant --> MemoryRestores
//   MemoryRestores -------------- MovedIn, RestoreDone+                +-- EventReport -----> events
//   GpuCapacityMeter ------------ CapacityChanged ----+
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
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/untrusted_socket.h"
#include "base/weak_self.h"
#include "daemon/core/signal.h"
#include "daemon/sharing/allocation_room.h"
#include "daemon/sharing/gpu_capacity_meter.h"
#include "daemon/sharing/job_demand.h"
#include "daemon/sharing/memory_evictions.h"
#include "daemon/sharing/memory_restores.h"
#include "daemon/sharing/shared_job.h"
#include "daemon/shims/answer_poll_schedule.h"
#include "daemon/shims/job_quiescer.h"
#include "daemon/shims/shim_channel.h"
#include "daemon/suspension/suspend_controller.h"
#include "share/scheduler.h"

namespace gpuman::daemon {

class ShareController {
 public:
  // All must outlive this object.
  ShareController(Core& core, ShimChannel& shims, JobQuiescer& quiescer, SuspendController& suspension,
                  share::SchedulerSettings settings);
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
  bool PassOn(base::JobId job, base::ProcessId process, ledger::TransferDirection direction,
              base::UntrustedSocket& connection);

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
  base::Bytes HostMemoryComing() const { return evictions_.HostMemoryComing(); }
  // Memory in host memory of jobs that have been ordered to bring it back.
  base::Bytes HostMemoryOfRestores() const { return restores_.HostMemoryOfRestores(); }

  void SetSettings(share::SchedulerSettings settings);
  const share::SchedulerSettings& settings() const { return scheduler_.settings(); }
  share::Snapshot View() const { return scheduler_.View(clock_.Mono()); }
  // The job that does not yield, and why: `job` itself, or another that has the room that `job` waits for.
  std::optional<share::Scheduler::Obstacle> ObstacleOf(base::JobId job) const {
    return scheduler_.ObstacleOf(job);
  }
  // How far a job is that is being brought to rest, for its turn or by the suspend controller.
  std::optional<JobQuiescer::Progress> ProgressOf(base::JobId job) const { return quiescer_.ProgressOf(job); }
  // Whether the job takes part and the suspend controller has it.
  bool IsWithdrawn(base::JobId job) const {
    const auto entry = entries_.find(job);
    return entry != entries_.end() && entry->second.job.withdrawn;
  }

 private:
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
    CompletedCallCounter completed;
    share::MemoryDemands demand;  // as the scheduler was told last
    bool stale = true;            // tell the scheduler the demand even if it is unchanged
    bool open = true;
    // Closed in part: these processes run on, since their work does not come to rest. Their memory stays.
    std::set<base::ProcessId> at_work;
    bool in_part = false;                        // the order to close asks for no more
    std::map<std::string, base::Bytes> granted;  // to memory that comes back, and not there yet
    AllocationRoom room;
    PinnedMemoryFilter pinned;
    share::TenantActivity activity = share::TenantActivity::kUnknown;
    ledger::SharingSettings sent{};
  };

  // --- share_controller.cc
  void Join(SharedJob job);
  void Leave(base::JobId job);
  void Withdraw(Entry& entry);
  void TakeBack(Entry& entry);
  void Feed(const share::Event& event);
  void OnTransfer(const share::Event& event);
  void SetCapacities();
  void GrantRoom(Entry& entry, const share::action::MemoryGrant& grant);
  void Perform(const share::Action& action);
  void UpdateRoomAndTimers();
  Entry* Find(base::JobId job);
  std::vector<base::JobId> Jobs() const;
  void CheckSoon(base::JobId job);
  void Poll();
  void SetTimers();
  void ShowLife();
  bool IsBusy(const Entry& entry) const;
  bool AnswersSilently(const Entry& entry) const;
  base::Result<> Order(base::JobId job, base::ProcessId process, const ledger::ProcessOrder& command);
  base::Result<unsigned> OrderAll(base::JobId job, const ledger::ProcessOrder& command);

  // --- share_controller_orders.cc: gates, and the answers in the ledgers
  void Open(Entry& entry);
  void Close(Entry& entry, const share::action::Close& order);
  void BringToRest(Entry& entry, base::Millis limit);
  void FindAtWork(Entry& entry);
  void OnRest(Entry& entry, const JobQuiescer::Result& result);
  void CheckOrders(Entry& entry);
  void CheckOpening(Entry& entry);
  void JoinOpen(Entry& entry, std::string refused);
  void JoinClosed(Entry& entry);
  void GiveUpTaking(Entry& entry, const JobQuiescer::Result& result);

  // --- share_controller_answers.cc: processes that do not take up orders
  void CheckAnswers(Entry& entry);
  std::string WhySilent(const Entry& entry, const ledger::SlotStatus& slot) const;
  void LetGoOfSilent(Entry& entry, const std::vector<ledger::SlotStatus>& slots);

  // --- share_controller_demand.cc
  void Check(Entry& entry);
  base::Bytes MostWanted(const Entry& entry) const;
  void CheckDemand(Entry& entry, const std::vector<ledger::SlotStatus>& slots);
  share::MemoryDemands DemandOf(const Entry& entry, const std::vector<ledger::SlotStatus>& slots) const;
  void TellActivity(Entry& entry, const std::vector<ledger::SlotStatus>& slots);
  void TellRoom();
  void TellSharing(Entry& entry);
  base::Bytes CountedOf(base::JobId job, const std::string& gpu) const;

  Core& core_;
  const base::Clock& clock_;
  ShimChannel& shims_;
  JobQuiescer& quiescer_;
  SuspendController& suspension_;
  share::Scheduler scheduler_;
  std::map<base::JobId, Entry> entries_;
  GpuCapacityMeter capacity_;
  MemoryRestores restores_;
  MemoryEvictions evictions_;
  std::deque<share::Event> events_;  // events for the scheduler; handling one may add others
  bool feeding_ = false;
  boost::asio::steady_timer turn_, poll_, life_;
  bool polling_ = false;       // the timer runs, or its handler does
  bool showing_life_ = false;  // likewise
  base::MonoTime poll_at_{};
  AnswerPollSchedule answer_poll_;
  bool silent_ = false;  // a process has an order, and its shim will send no notification of its answer
  const base::MonoTime began_;
  base::WeakSelf<ShareController> self_{this};
};

}  // namespace gpuman::daemon
