// Hands the GPUs out: keeps the queue's snapshot in step with jobs and GPUs, lets a pass decide, and carries
// out the decisions of the pass.
//
//   jobs change, GPUs sampled, settings --> snapshot --> pass (pure) --> plan --> starts, cancels: jobs
//   time that the plan names ----------------^                          \--> preempts, moves, resumes: module
//
// The dispatcher makes one pass after a group of changes, and one at the time that the last pass named; it
// makes no others. The next pass decides again what could not be carried out. The dispatcher answers
// questions about the queue from the same snapshot.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fair_task_executor.h"
#include "base/sliced_work.h"
#include "base/weak_self.h"
#include "daemon/queue/foreign_use.h"
#include "daemon/queue/job_references.h"
#include "daemon/queue/memory_choice.h"
#include "daemon/queue/queue_snapshot.h"
#include "daemon/queue/queue_snapshot_maker.h"
#include "daemon/queue/submission.h"
#include "daemon/queue/submission_claims.h"
#include "daemon/queue/wall_clock_timer.h"
#include "guard/guard.h"
#include "jobs/job_manager.h"
#include "queue/dependencies.h"
#include "queue/forecast.h"
#include "queue/pass.h"
#include "queue/retry_delay.h"
#include "queue/snapshot_updater.h"
#include "suspend/record.h"

namespace gpuman::daemon {

// What the dispatcher needs of other modules.
struct DispatcherCallbacks {
  using Done = std::function<void(base::Result<>)>;

  // Whether the GPU is unhealthy, is a part of an unhealthy GPU, or is split into instances.
  std::function<bool(const gpu::Gpu& gpu)> is_out_of_use;
  std::function<std::string(uid_t uid)> name_of_user;

  // Whether the job is off its GPU because another job needed the place. True as well if an earlier daemon
  // took it off.
  std::function<bool(base::JobId job)> is_preempted;
  // Whether the job makes no call, and has agreed to leave its GPU until its next one.
  std::function<bool(base::JobId job)> is_idle;
  // What stays on the GPUs of a suspended job; for a job that runs: what would stay, as far as that is known.
  std::function<suspend::BytesByGpu(base::JobId job)> left_of;
  // These take jobs off their GPUs and bring them back. They call `done` when the job is there, or with the
  // reason why it is not. `idle`: as is_idle says; its next call brings the job back, and not room alone.
  std::function<void(base::JobId job, bool idle, const std::string& why, Done done)> preempt;
  std::function<void(base::JobId job, std::optional<std::string> gpu, Done done)> resume;
  std::function<void(base::JobId job, const std::string& gpu, Done done)> move_to;

  // The spec of a waiting job that is about to start, if its memory is chosen anew; and that this is stored.
  std::function<std::optional<MemoryChoice>(const jobs::Job& job)> choose_memory;
  std::function<void(const jobs::Job& job, const std::string& note)> on_memory_chosen;
  // Does the task off the loop, when it is the user's turn. Fails where as many tasks of the user wait as
  // may; those of kEveryUser always may.
  std::function<base::Result<>(uid_t user, base::FairTaskExecutor::Task task)> aside;
};

// Settings of the queue that administrators change while it runs.
struct QueueControlState {
  queue::GpuPickPolicy choice = queue::GpuPickPolicy::kSequential;
  bool paused = false;
  std::optional<std::set<std::string>> allowed{};   // UUIDs; nullopt: every GPU
  std::set<std::string> drained{};                  // UUIDs: no new job starts there
  std::map<std::string, std::string> drained_by{};  // by UUID, the user; absent: not known
  std::vector<IgnoreRule> ignored{};
};

class Dispatcher {
 public:
  template <typename T>
  using Done = std::function<void(base::Result<T>)>;

  // All but the callbacks must outlive this object.
  Dispatcher(boost::asio::io_context& loop, const base::Clock& clock, jobs::JobManager& jobs,
             const guard::Guard& guard, DispatcherCallbacks callbacks);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // The GPUs are known and were sampled. From now on the dispatcher starts jobs.
  void Begin();

  // --- What happened ---
  void OnJobChanged(const jobs::Job& job);
  void OnJobForgotten(base::JobId job);
  void OnInventory();
  void OnSample(const std::string& gpu);
  // After OnSample for all GPUs that were sampled.
  void AfterSamples();
  void OnPhase(base::JobId job, suspend::SuspensionPhase phase);
  // DispatcherCallbacks::is_idle of the job has changed.
  void OnIdle(base::JobId job);
  // A run has ended: it counts for fair share.
  void Charge(const jobs::RunAccount& run);
  // A run of this job has shown what such runs need: waiting jobs that were submitted after it with the same
  // user and name may have their memory chosen anew.
  void ChooseMemoryAfter(const jobs::Job& job);
  // Deletes accounts that count nothing any more.
  void ForgetOldAccounts();
  void SetState(const QueueControlState& state);
  // `window`: the length of the window of quotas of GPU-hours.
  void SetSettings(const queue::SchedulingSettings& settings, base::Millis window);
  const QueueControlState& state() const { return state_; }
  // Programs of these names are the machine's own: they hold no GPU. From the next sample, or SetState, on.
  void SetProtectedNames(std::set<std::string> names) { protected_names_ = std::move(names); }
  const std::set<std::string>& protected_names() const { return protected_names_; }
  // The caller may change quotas, shares, reservations and settings in it, and calls Wake afterwards.
  queue::SnapshotUpdater& updater() { return updater_; }
  void Wake();

  // --- What users ask ---
  using Claim = SubmissionClaims::Claim;
  SubmissionClaims& claims() { return claims_; }
  // Refuses jobs that could never run, or that pass a bound on waiting jobs; then stores all jobs or none.
  // The answer has the ids, in order. Many jobs are checked in slices. `claim`: the claim that has counted
  // the jobs so far.
  void Submit(std::vector<jobs::Job> prepared, Done<std::vector<base::JobId>> done, Claim claim = {});
  // What a pass over the queue would decide for these jobs now, if they were in it.
  struct SubmissionForecast {
    std::vector<jobs::Job> jobs;
    std::vector<queue::Verdict> verdicts;        // of the jobs, in their order
    std::vector<std::string> details;            // why they wait
    std::vector<queue::WallTime> starts;         // estimated; kNever: unknown
    std::vector<bool> presumed;                  // as queue::StartEstimates has it
    std::vector<std::vector<std::string>> gpus;  // UUIDs, for jobs that would start
  };
  // `is_cancelled`: true from when nobody waits for the forecast; `done` may not be called then.
  void TryOut(std::vector<jobs::Job> prepared, Done<SubmissionForecast> done, Claim claim = {},
              std::function<bool()> is_cancelled = {});
  // The queue as it is now; valid until something changes.
  using View = QueueView;
  View CurrentView();
  // False: a view would cost a pass over a long queue, or passes for questions have taken enough of the time
  // already.
  bool IsViewCheap() const;
  // Calls `then` with the same as a value, for callers that need it longer (QueueSnapshotMaker::With).
  void WithSnapshot(QueueSnapshotMaker::Then then);
  // How many jobs wait for which reason, as the last pass found; a caller's question costs no pass. `oldest`:
  // since when the job has waited that has waited longest, among jobs that are not held and wait for no other
  // job and no time.
  struct Backlog {
    std::map<queue::WaitReason, std::size_t> jobs{};
    std::optional<queue::WallTime> oldest{};
    bool paused = false;
  };
  Backlog CurrentBacklog() const;
  const JobReferences& references() const { return references_; }
  // What the job asked for; for a job of `gpuman run`, what it takes, as the queue sees it. Never null.
  std::shared_ptr<const spec::JobSpec> SpecFor(const jobs::Job& job) const;
  // Checks that the job could wait in this form: it waits neither in a circle nor for something that can
  // never happen. If it comes into another project or waits for more jobs, counts that until the claim is
  // destroyed. Looks for circles only where its dependencies change.
  base::Result<Claim> MayBecome(const jobs::Job& changed);
  // A search for the jobs that wait for `jobs`, which are to be cancelled: the first `most`. This object must
  // outlive it.
  queue::AffectedSearch AffectedBy(const std::vector<base::JobId>& jobs, std::size_t most) const;
  // Whether the job was cancelled because it waited for one of `jobs`.
  bool WasCancelledWith(const jobs::Job& job, const std::set<base::JobId>& jobs);
  // Lets a suspended job of the queue go back to a GPU when its turn comes. False: the job is not suspended.
  bool RequestResume(base::JobId job);
  // The user of a suspended job wants it to stay away, also where it was to come back by itself.
  void StayAway(base::JobId job);
  // These bring a job of the queue to this GPU, out of suspension or from another GPU. Where the snapshot has
  // no room for the job there, they fail with kConflict and change nothing.
  void ResumeOn(base::JobId job, const std::string& gpu, DispatcherCallbacks::Done done);
  void MoveTo(base::JobId job, const std::string& gpu, DispatcherCallbacks::Done done);
  // Whether other jobs wait for this job: such a job is not forgotten.
  bool IsNeeded(base::JobId job) const { return dependents_.Any(job); }
  const ProcessIdleTracker& idle() const { return idle_; }

 private:
  // After a pass the loop has so many times the time of the pass for other work, however much happens.
  static constexpr int kRestPerPass = 4;

  // A job that was started, by the queue or not.
  struct Active {
    std::shared_ptr<const spec::JobSpec> spec;  // as SpecFor has it
    queue::RunningJob row;
    bool unsuspendable = false;
    bool preempting = false;       // it was told to leave, and what became of that is not known yet
    suspend::BytesByGpu left{};    // as left_of tells it
    suspend::BytesByGpu stayed{};  // when the job was last suspended in this run
  };

  // The delay of a job that waits after a failed run.
  struct Delayed {
    queue::RetryDelay delay;
    queue::WallTime in_snapshot;  // the end of the delay, as the snapshot has it
  };

  // The snapshot has changed: the plan and the snapshots for questions are out of date.
  void MarkChanged();
  // Jobs that may come into the queue, and the claim that counts them among waiting jobs until they wait
  // there.
  struct Admitted {
    std::vector<jobs::Job> jobs;
    Claim claim;
  };
  struct Admission;
  void Admit(std::vector<jobs::Job> prepared, Claim claim, Done<Admitted> done);
  base::Result<bool> CheckSome(Admission& admission, const base::TimeSlice* turn);
  void PutOnTrial(queue::SnapshotUpdater& updater, const std::vector<jobs::Job>& prepared, base::JobId id,
                  queue::WallTime now);
  std::shared_ptr<QueueSnapshot> CopySnapshot();
  void Pass();
  // Tells the updater when delays end by the wall clock now. The clock may have been set, or may run too
  // fast.
  void FollowClock(queue::WallTime now);
  void UpdateWindows(queue::WallTime now);
  void Apply(const queue::Plan& plan, const queue::Snapshot& snapshot, queue::WallTime now);
  void Start(base::JobId job, std::vector<std::string> gpus);
  // Whether the job gets another size now, or is getting it: then the next pass decides on its start.
  bool ChoosesMemory(base::JobId job);
  void Preempt(const queue::PreemptDecision& order);
  // `done`: given where a caller waits for the end.
  void Resume(base::JobId job, std::vector<std::string> gpus, DispatcherCallbacks::Done done = {});
  void Move(base::JobId job, std::vector<std::string> from, std::vector<std::string> to,
            DispatcherCallbacks::Done done = {});
  void Resumed(base::JobId job, const std::vector<std::string>& before, bool there);
  void Moved(base::JobId job, const std::vector<std::string>& gpus, bool there);
  base::Result<> MayGoTo(base::JobId job, const std::string& gpu);
  void PutWaiting(const jobs::Job& job);
  queue::WallTime EndOfDelay(const jobs::Job& job);
  void PutActive(const jobs::Job& job);
  void Refresh(Active& active);
  bool ReadLeft(Active& active);
  static void SetMovable(Active& active);
  spec::JobSpec SpecOfRun(const jobs::Job& job) const;
  std::vector<std::string> GpusOfRun(const jobs::Job& job) const;
  void TellDependents(base::JobId job);
  queue::AwaitedJobState ProgressOf(base::JobId job) const;

  boost::asio::io_context& loop_;
  const base::Clock& clock_;
  jobs::JobManager& jobs_;
  JobReferences references_;
  const guard::Guard& guard_;
  const DispatcherCallbacks callbacks_;
  queue::SnapshotUpdater updater_;
  queue::Dependents dependents_;
  SubmissionClaims claims_;
  QueueControlState state_;
  std::set<std::string> protected_names_;
  std::map<base::JobId, Active> active_;
  std::map<base::JobId, Delayed> delayed_;
  std::set<base::JobId> choosing_;  // jobs whose memory was chosen anew, which is not on the disk yet
  std::map<std::string, ForeignUse> foreign_;
  ProcessIdleTracker idle_;
  base::Millis window_{std::chrono::hours(24)};
  std::map<std::pair<queue::AccountKind, std::string>, queue::UsageWindow> windows_;
  queue::Plan plan_;
  queue::StartEstimates estimates_;
  bool begun_ = false;
  bool dirty_ = true;      // the snapshot is not as the plan saw it
  bool forecast_ = false;  // estimates_ belongs to plan_
  bool pass_posted_ = false;
  QueueSnapshotMaker snapshots_;
  base::MonoTime next_pass_{};
  base::MonoTime stuck_until_{};     // the disk refused a start: no start is tried before then
  WallClockTimer timer_;             // at the time that the plan names
  boost::asio::steady_timer pause_;  // between passes that take long
  base::SlicedWork slices_;
  base::WeakSelf<Dispatcher> self_{this};
};

}  // namespace gpuman::daemon
