// Hands the GPUs out: keeps the queue's book in step with jobs and GPUs, lets a pass decide, and carries out
// what it decided.
//
//   jobs change, GPUs sampled, settings --> book --> pass (pure) --> plan --> starts, cancels: job manager
//   time that the plan names ----------------^                          \--> preempts, moves, resumes: host
//
// A pass is made after what happened, once for all of it, and at the time that the last one named; never
// otherwise. What could not be carried out is decided again by the next pass. What somebody asks the queue is
// answered from the same book.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <boost/asio/io_context.hpp>
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
#include "base/fair_queue.h"
#include "base/sliced_work.h"
#include "daemon/queue/foreign.h"
#include "daemon/queue/queue_snapshot.h"
#include "daemon/queue/submission.h"
#include "daemon/queue/wall_timer.h"
#include "jobs/job_manager.h"
#include "queue/book.h"
#include "queue/dependencies.h"
#include "queue/forecast.h"
#include "queue/pass.h"
#include "queue/retry_delay.h"
#include "suspend/record.h"

namespace gpuman::daemon {

// What the dispatcher needs of the daemon.
class DispatcherHost {
 public:
  using Done = std::function<void(base::Result<>)>;
  virtual ~DispatcherHost() = default;
  virtual const gpu::Inventory& GpuInventory() = 0;
  virtual const std::map<std::string, guard::GpuStatus>& GpuStatuses() = 0;
  virtual base::Bytes ReserveOf(const std::string& gpu) = 0;
  // Unhealthy (or a part of a GPU that is), or split into instances.
  virtual bool IsOutOfUse(const gpu::Gpu& gpu) = 0;
  virtual std::string NameOfUser(uid_t uid) = 0;
  virtual const std::set<std::string>& ProtectedNames() = 0;
  // It is off its GPU because another job needed the place, also where an earlier daemon took it off.
  virtual bool IsPreempted(base::JobId job) = 0;
  // Jobs off their GPUs and back. Done when it is there, or why it is not.
  virtual void PreemptJob(base::JobId job, const std::string& why, Done done) = 0;
  virtual void ResumeJob(base::JobId job, std::optional<std::string> gpu, Done done) = 0;
  virtual void MoveTo(base::JobId job, const std::string& gpu, Done done) = 0;
  // Off the loop, when it is the user's turn.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it keep the task
  virtual void Aside(uid_t /*user*/, base::FairQueue::Task task) {
    if (task.begin) task.begin();
    task.work();
    if (task.then) task.then();
  }
};

// What an administrator made of the queue while it ran.
struct QueueState {
  queue::Choice choice = queue::Choice::kSequential;
  bool paused = false;
  std::optional<std::set<std::string>> allowed{};  // UUIDs; nullopt: every GPU
  std::set<std::string> drained{};                 // UUIDs: nothing new starts there
  std::vector<IgnoreRule> ignored{};
};

class Dispatcher {
 public:
  template <typename T>
  using Done = std::function<void(base::Result<T>)>;

  // All must outlive this object.
  Dispatcher(boost::asio::io_context& loop, const base::Clock& clock, jobs::JobManager& jobs,
             DispatcherHost& host);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // The GPUs are known and were looked at: from now on jobs are started.
  void Begin();

  // --- What happened ---
  void OnJobChanged(const jobs::Job& job);
  void OnJobForgotten(base::JobId job);
  void OnInventory();
  void OnSample(const std::string& gpu);
  void OnPhase(base::JobId job, suspend::SuspensionPhase phase);
  // A run has ended: it counts for fair share.
  void Charge(const jobs::RunAccount& run);
  // Accounts that have nothing any more go.
  void ForgetOldAccounts();
  void SetState(const QueueState& state);
  // `window`: of quotas of GPU-hours.
  void SetSettings(const queue::SchedulingSettings& settings, base::Millis window);
  const QueueState& state() const { return state_; }
  // Changed from outside (quotas, shares, reservations, settings): call Wake afterwards.
  queue::Book& book() { return book_; }
  void Wake();

  // --- What people ask ---
  // Counts so many more jobs of a user's, with so much text, among those that the user has, until it is let
  // go of. kUnsatisfiable: they would pass a bound.
  using Claim = std::shared_ptr<void>;
  base::Result<Claim> ClaimMore(const jobs::Owner& owner, std::size_t jobs, base::Bytes text);
  // Refuses what could never run and what passes a bound on waiting jobs, then keeps all jobs or none. The
  // answer has the ids, in order. Of many jobs this is done in slices. `claim`: what counted them so far.
  void Submit(std::vector<jobs::Job> prepared, Done<std::vector<base::JobId>> done, Claim claim = {});
  // What would be said to these jobs now, by a pass over the queue with them in it.
  struct Outlook {
    std::vector<jobs::Job> jobs;
    std::vector<queue::Verdict> verdicts;        // of the jobs, in their order
    std::vector<std::string> details;            // why they wait
    std::vector<queue::WallTime> starts;         // estimated; kNever: nobody can tell
    std::vector<bool> presumed;                  // as queue::Estimates has it
    std::vector<std::vector<std::string>> gpus;  // UUIDs of those that would start
  };
  void TryOut(std::vector<jobs::Job> prepared, Done<Outlook> done, Claim claim = {});
  // As it is now; valid until something changes.
  using View = QueueView;
  View CurrentView();
  // False: a view would cost a pass over a long queue, or passes for those who ask took enough of the time
  // already.
  bool IsViewCheap() const;
  // The same as a value, for who needs it for longer: now, or after some time. What was changed before the
  // call is in it. One is made at a time, for all who asked until it is begun; a long queue's off the loop.
  void WithSnapshot(std::function<void(std::shared_ptr<const QueueSnapshot>)> then);
  // How many wait for what, as the last pass had it: asking costs none. And since when the one has waited
  // that has waited longest, of those that are not held and wait for no other job and no time.
  struct Backlog {
    std::map<queue::Reason, std::size_t> jobs{};
    std::optional<queue::WallTime> oldest{};
    bool paused = false;
  };
  Backlog CurrentBacklog() const;
  queue::ReferenceLookup LookupFor(uid_t user) const;
  // The jobs that a reference names, of any user: a task, all tasks of an array, one job.
  base::Result<std::vector<base::JobId>> JobsOf(const std::string& reference, uid_t user) const;
  // kConflict where a name means several that have not ended: who ends or changes one has to say which.
  base::Result<> IsOneJob(const std::string& reference, uid_t user) const;
  // What the job asked for; of `gpuman run` what it takes, as the queue sees it. Never null.
  std::shared_ptr<const spec::JobSpec> SpecFor(const jobs::Job& job) const;
  // Whether the job could wait as it is now: not in a circle, and not for what can never be. Counts it in a
  // project that it comes into until the claim is let go of.
  base::Result<Claim> MayBecome(const jobs::Job& changed);
  // Whether the job was cancelled because it waited for one of `jobs`.
  bool WasCancelledWith(const jobs::Job& job, const std::set<base::JobId>& jobs);
  // A suspended job of the queue goes back on a GPU when its turn comes. False: it is not suspended.
  bool RequestResume(base::JobId job);
  // A job of the queue to this GPU, out of suspension or from another one. kConflict, and nothing happens,
  // where the book has no room for it there.
  void ResumeOn(base::JobId job, const std::string& gpu, DispatcherHost::Done done);
  void MoveTo(base::JobId job, const std::string& gpu, DispatcherHost::Done done);
  // Jobs that others wait for are not forgotten.
  bool IsNeeded(base::JobId job) const { return dependents_.Any(job); }
  const IdleWatch& idle() const { return idle_; }

 private:
  // After a pass so many times as long goes to other things, however much happens; the same for those that
  // answer questions.
  static constexpr int kRestPerPass = 4;

  // A job that was started, by the queue or not.
  struct Active {
    std::shared_ptr<const spec::JobSpec> spec;  // as SpecFor has it
    queue::RunningJob row;
    bool unsuspendable = false;
  };

  // Of a job that waits after a failed run.
  struct Delayed {
    queue::RetryDelay delay;
    queue::WallTime in_book;  // its end, as the book has it
  };

  // The book has changed: plans and snapshots are of another one.
  void Touch();
  // Waiting jobs by account, and their text by user.
  struct Counts {
    std::map<std::pair<queue::AccountKind, std::string>, int> jobs{};
    std::map<uid_t, std::pair<jobs::Owner, base::Bytes>> text{};
  };
  // Jobs that may be taken, and what counts them among those that wait until they do.
  struct Admitted {
    std::vector<jobs::Job> jobs;
    Claim claim;
  };
  struct Admission;
  void Admit(std::vector<jobs::Job> prepared, Claim claim, Done<Admitted> done);
  base::Result<bool> CheckSome(Admission& admission, const base::Turn* turn);
  static Counts CountOf(const std::vector<jobs::Job>& prepared);
  base::Result<> MayQueue(const Counts& counts);
  // Only what is new: it counts for its user already.
  base::Result<Claim> ClaimProject(const jobs::Job& changed);
  Claim Count(Counts counts);
  void PutOnTrial(queue::Book& book, const std::vector<jobs::Job>& prepared, base::JobId id,
                  queue::WallTime now);
  void ScheduleSnapshot();
  void MakeSnapshot();
  void OnSnapshotMade(const std::shared_ptr<const QueueSnapshot>& snapshot, std::uint64_t changes);
  void Pass();
  // The clock on the wall was set, or goes too fast: the book learns when delays end by it now.
  void FollowClock(queue::WallTime now);
  void UpdateWindows(queue::WallTime now);
  void Apply(const queue::Plan& plan, const queue::Snapshot& snapshot, queue::WallTime now);
  void Start(base::JobId job, std::vector<std::string> gpus);
  void Preempt(const queue::Preempt& order);
  // `done`: somebody waits for it.
  void Resume(base::JobId job, std::vector<std::string> gpus, DispatcherHost::Done done = {});
  void Move(base::JobId job, std::vector<std::string> from, std::vector<std::string> to,
            DispatcherHost::Done done = {});
  void Resumed(base::JobId job, const std::vector<std::string>& before, bool there);
  void Moved(base::JobId job, const std::vector<std::string>& gpus, bool there);
  base::Result<> MayGoTo(base::JobId job, const std::string& gpu);
  void PutWaiting(const jobs::Job& job);
  queue::WallTime EndOfDelay(const jobs::Job& job);
  void PutActive(const jobs::Job& job);
  void Refresh(Active& active);
  spec::JobSpec SpecOfRun(const jobs::Job& job) const;
  std::vector<std::string> GpusOfRun(const jobs::Job& job) const;
  void TellDependents(base::JobId job);
  queue::Progress ProgressOf(base::JobId job) const;
  std::optional<base::JobId> TaskNamed(const std::string& tag, std::int64_t task, uid_t user) const;
  void RememberRecent(const jobs::Job& job);

  boost::asio::io_context& loop_;
  const base::Clock& clock_;
  jobs::JobManager& jobs_;
  DispatcherHost& host_;
  queue::Book book_;
  queue::Dependents dependents_;
  QueueState state_;
  std::map<base::JobId, Active> active_;
  std::map<base::JobId, Delayed> delayed_;
  std::map<std::string, ForeignUse> foreign_;
  IdleWatch idle_;
  base::Millis window_{std::chrono::hours(24)};
  std::map<std::pair<queue::AccountKind, std::string>, queue::UsageWindow> windows_;
  std::map<uid_t, std::deque<base::JobId>> recent_;  // submitted, the newest last; an array once
  queue::Plan plan_;
  queue::Estimates estimates_;
  bool begun_ = false;
  bool dirty_ = true;      // the book is not as the plan saw it
  bool forecast_ = false;  // estimates_ is of plan_
  bool pass_posted_ = false;
  std::uint64_t changes_ = 0;  // of the book
  // Not in the book yet; none is 0.
  std::map<std::pair<queue::AccountKind, std::string>, int> claimed_;
  std::map<uid_t, base::Bytes> claimed_text_;
  struct Asker {
    std::uint64_t changes;  // that are to be in the snapshot
    std::function<void(std::shared_ptr<const QueueSnapshot>)> then;
  };
  std::vector<Asker> askers_;
  bool snapshot_pending_ = false;              // one is being made, or will be at next_snapshot_
  std::weak_ptr<const QueueSnapshot> latest_;  // of the book as it is; shared by those who look at it now
  base::MonoTime next_pass_{};
  base::MonoTime next_snapshot_{};
  base::MonoTime stuck_until_{};              // the disk took no start: no more are tried before then
  WallTimer timer_;                           // at the time that the plan names
  boost::asio::steady_timer pause_;           // between passes that take long
  boost::asio::steady_timer snapshot_timer_;  // the same of snapshots
  base::SlicedWork slices_;
  // Callbacks that outlive this object find it gone.
  std::shared_ptr<Dispatcher*> self_;
};

}  // namespace gpuman::daemon
