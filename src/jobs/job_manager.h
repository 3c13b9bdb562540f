// All jobs of a daemon: keeps their records, their keepers and the store in step.
//
// Everything that is acknowledged (a Done called with success) is on the disk. A job's record is committed
// before its keeper is started. After a restart of the daemon Adopt continues every job from its stored
// state: not started yet, running, or ended meanwhile; also after its keeper was killed or the machine was
// rebooted.
//
// Not thread-safe: lives on the event loop, where all callbacks run. Keepers are started and files are
// deleted on `workers`, in turns between users. The store's thread writes, and another thread sends signals.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/fair_queue.h"
#include "base/process.h"
#include "base/result.h"
#include "base/sliced_work.h"
#include "jobs/job.h"
#include "jobs/job_manager_callbacks.h"
#include "jobs/keeper_link.h"
#include "jobs/kernel_kill.h"
#include "jobs/launch_plan.h"
#include "jobs/lifecycle.h"
#include "jobs/outbox.h"
#include "jobs/root_watch.h"
#include "jobs/store.h"
#include "jobs/store_worker.h"
#include "jobs/text_account.h"
#include "jobs/tree_signals.h"

namespace gpuman::jobs {

struct JobManagerOptions {
  std::filesystem::path keeper_program;
  std::filesystem::path jobs_dir;  // exists
  LaunchSettings launch;           // JobManagerCallbacks::all_gpus tells all_gpus
  std::size_t keep_ended = 1000;   // older ended jobs are forgotten (retention.h)
  base::Millis keep_ended_for{30LL * 86'400'000};
  // The bounds of each user but root. 0: no bound.
  std::size_t running_of_user = 0;  // jobs that run at once
  base::Bytes text_of_user{};       // of jobs that have not ended; ended jobs have the same bound again
};

class JobManager {
 public:
  template <typename T>
  using Done = std::function<void(base::Result<T>)>;

  // All must outlive this object.
  JobManager(boost::asio::io_context& loop, boost::asio::thread_pool& workers, StoreWorker& store,
             const base::Clock& clock, const base::ProcessTable& table, JobManagerOptions options);
  ~JobManager();
  JobManager(const JobManager&) = delete;
  JobManager& operator=(const JobManager&) = delete;

  // Functions are registered after the construction and before Adopt.
  JobManagerCallbacks& callbacks() { return callbacks_; }

  // Takes the jobs of the store; call it once, before anything else.
  void Adopt(StoreContents contents);
  // Holds for jobs started from now on.
  void SetOptions(JobManagerOptions options);

  // Gives `job` its id and starts it. kAlreadyExists: a job that has not ended has the tag; kUnsatisfiable:
  // the job exceeds a bound of its user.
  void Create(Job job, Done<Job> done);
  // Takes the processes that the process `root` starts as a job, from now on until root has ended; root
  // itself is not part of the job. The processes must have AttachedEnvironment. When root has ended, the job
  // manager ends the remaining processes. If root is attached under this tag already, the answer is that job.
  // If an order ends the job, the job is over when its processes are gone, even if root lives.
  // kAlreadyExists: a job that has not ended has the tag; kConflict: root is attached to another job;
  // kNotFound: there is no such process.
  void Attach(Job job, base::ProcessId root, Done<Job> done);
  // The same for the processes in `job.container`, whose cgroup is `job.cgroup`, until no process runs there.
  // kAlreadyExists: the container is a job already, or the tag is taken; kNotFound: no process runs in the
  // container.
  void AttachContainer(Job job, Done<Job> done);
  std::vector<std::string> AttachedEnvironment(const Job& job) const {
    return jobs::AttachedEnvironment(job, options_.launch);
  }
  // Applies `change` to the settings (limits, priority, restart, grace) and tells the keeper.
  void Update(JobId id, const std::function<void(Job&)>& change, Done<Job> done);
  // Stores the job's suspension record, and the messages for `notices`. Calls `done` when they are on the
  // disk, or cannot be written. Stores nothing for a job that is gone.
  void SetSuspension(JobId id, std::string record, const std::vector<Notice>& notices,
                     std::function<void()> done);
  // Starts a new run of a running or an ended job. For a running job `done` is called when the new run has
  // begun, or when no new run will begin. If the job is just being started, the request waits (OnceStarted).
  void Restart(JobId id, const keeper::Reason& reason, Done<Job> done);
  // The error with which Restart would refuse.
  base::Result<> MayRestart(JobId id);
  // Ends the job and forgets it. Calls `done` when the job is gone, with the job as it ended.
  void Remove(JobId id, const keeper::Reason& reason, Done<Job> done);
  // Forgets the job and lets it run on without limits; it will not be restarted. If the job is just being
  // started, the request waits (OnceStarted).
  void Release(JobId id, Done<Job> done);

  // --- The bounds of one user (job_manager_bounds.cc) ---
  base::Result<> MayAddText(const Owner& owner, base::Bytes claimed, base::Bytes more) const;
  base::Result<> MayChangeText(JobId id, const Job& changed);

  // True: the job's keeper is not there yet, or the keeper has not begun the run for which it was started.
  bool IsBeingStarted(JobId id) const;
  // Calls `act`, soon, when the job is not being started any more: it may run, wait, have ended or be gone.
  // If the daemon ends before that, `act` is not called.
  void OnceStarted(JobId id, std::function<void()> act);

  // --- Jobs of the queue (job_manager_queue.cc) ---
  // The id that the next job gets.
  JobId NextId() const { return {last_id_ + 1}; }
  // Reserves `count` ids, which no other job gets, and returns the first.
  JobId Reserve(std::size_t count) {
    last_id_ += static_cast<std::int64_t>(count);
    return {last_id_ - static_cast<std::int64_t>(count) + 1};
  }
  // Gives waiting jobs the next ids, in their order, and keeps the jobs until they are started: all of them,
  // or none. A job is visible only once it is on the disk. The job manager takes many jobs in slices: the
  // first jobs are visible before the last.
  void Enqueue(std::vector<Job> jobs, Done<std::vector<JobId>> done);
  // Starts a waiting job on these GPUs (UUIDs). kConflict: the job does not wait, or is held.
  void Start(JobId id, std::vector<std::string> gpus, Done<Job> done);
  // kConflict: the job does not wait.
  void Hold(JobId id, const keeper::Reason& reason, Done<Job> done);
  void Unhold(JobId id, Done<Job> done);
  // When `done` is called, a running job is being ended. kConflict: the job has ended.
  void Cancel(JobId id, const keeper::Reason& reason, Done<Job> done);
  // Ends the job's run; the job runs again when its turn comes. Does nothing if the job does not run.
  void Requeue(JobId id, const keeper::Reason& reason);
  // Changes the request of a waiting job.
  void Change(JobId id, const std::function<void(Job&)>& change, Done<Job> done);
  // Tells the keeper that the job left its GPU or came back: time off the GPU does not count for its time
  // limit.
  void SetOffGpu(JobId id, bool off);

  // Announce, Signal and Note are for the guard. They do nothing for a job that is unknown or has no keeper.
  void Announce(JobId id, const keeper::Reason& reason);
  // Sends the signal to every process of the job, on another thread. For SIGKILL the thread repeats this
  // until no process is left that could fork. `done`: as in TreeSignals::Send; it is not called if the order
  // is refused.
  base::Result<> Signal(
      JobId id, int signal, TreeSignals::Done done = [](const SignalSent&) {});
  void Note(JobId id, const std::string& line);

  // nullptr: no such job. The pointer is valid until the next call that changes something.
  const Job* Find(JobId id) const;
  // Finds a job by id or by tag. By tag: the job with this tag that has not ended, else the newest job with
  // it.
  base::Result<JobId> Resolve(const std::string& ref) const;
  // The same, but a tag means a job of this user first.
  base::Result<JobId> Resolve(const std::string& ref, uid_t user) const;
  // kAlreadyExists: a job other than `but` that has not ended has the tag.
  base::Result<> TagIsFree(const std::string& tag, JobId but = {}) const;
  // The jobs of this tag, of this user or of all users; for an array, the array's id. The newest of a user
  // first; at most kMaxNamed, and the search is limited to a few.
  enum class Which { kOpen, kAll };  // kOpen: those that have not ended
  static constexpr std::size_t kMaxNamed = 9;
  std::vector<JobId> Named(const std::string& tag, std::optional<uid_t> user, Which which) const;
  // How a command can name the job: by its tag, or by its id where another job has the tag.
  std::string NameOf(const Job& job) const;
  // The job itself; or, for an array, its tasks that are not forgotten, by id.
  std::vector<JobId> TasksOf(JobId job_or_array) const;
  // A task of an array; nullopt: it does not exist, or is forgotten.
  std::optional<JobId> TaskOf(JobId array, std::int64_t task) const;
  std::vector<const Job*> All() const;     // by id; takes long: see After
  std::vector<const Job*> Active() const;  // jobs that neither wait nor have ended, by id
  // The next and the previous job by id; nullptr: there is none.
  const Job* After(JobId id) const;
  const Job* Before(JobId id) const;
  std::vector<JobId> Ended() const;  // by id
  // The number of jobs that wait.
  std::size_t WaitingCount() const { return entries_.size() - active_.size() - ended_.size(); }

  // Calls `ended` when the job has ended or was released; at once if that has happened. Returns 0 if `ended`
  // was called already.
  std::uint64_t WaitForEnd(JobId id, std::function<void(const Job&)> ended);
  void CancelWait(std::uint64_t handle);

  std::filesystem::path LogPathOf(JobId id) const;

 private:
  // How a job counts in its user's totals.
  struct Counted {
    bool is = false, ended = false, running = false;
    uid_t user = 0;
    TextAccount::Entry text{};
    friend bool operator==(const Counted&, const Counted&) = default;
  };
  struct Entry {
    Job job;
    Runtime runtime;
    std::shared_ptr<KeeperLink> link;  // shared with its pending operations
    std::unique_ptr<RootWatch> root;   // for an attached job, in place of a link
    bool stop_in_journal = false;
    bool end_unwritten = false;   // the job has ended, and its stored record will say so soon
    bool forgotten_soon = false;  // its stored record is being deleted
    IndirectOptional<std::string> settings_in_journal;
    IndirectOptional<std::string>
        settings_sent;                // over this connection; the keeper writes them to its journal soon
    std::vector<Done<Job>> removals;  // called when the job is gone
    std::size_t tag_hash = 0;         // its key in the index
    uid_t tag_user = 0;
    bool tag_indexed = false;
    Counted counted{};
  };
  // The jobs of one user.
  struct UserTotals {
    TextAccount open, ended;
    std::size_t running = 0;  // jobs that run and have a keeper of gpuman
    std::size_t jobs = 0;
  };
  // Many jobs on their way into the queue.
  struct Arrival {
    std::shared_ptr<std::vector<Job>> jobs;  // shared with the store's thread, which writes them
    base::WallTime at{};
    std::size_t next = 0;
    std::vector<JobId> ids{};
    Done<std::vector<JobId>> done;
  };
  // Rows that are written together with a job's record; if the disk refuses them, with the next record.
  struct Enclosed {
    std::vector<RunAccount> runs;
    std::vector<OutboxRow> messages;
  };
  struct Waiter {
    JobId job;
    std::function<void(const Job&)> ended;
  };

  // A request that waits for the job's run after the first `runs`.
  struct Rerun {
    JobId job;
    int runs = 0;
    Done<Job> done;
  };

  // A request for a job that is just being started.
  struct Later {
    JobId job;
    std::function<void()> act;
  };

  // A change of a job's request, on its way to the disk.
  struct RequestChange {
    Job before;
    Job changed;
  };
  using OnTheirWay = std::list<RequestChange>;  // of one job, the oldest first

  static base::Error NoSuchJob(std::string_view ref);
  static keeper::UpdateSettings SettingsOf(const Job& job);
  base::Result<Entry*> Existing(JobId id);
  // The same, but an error also for a job that is just being forgotten: the next daemon would find a record
  // that was written then.
  base::Result<Entry*> Kept(JobId id);
  void ShareParts(Job& job);
  // Updates the index by state and tag. Call it after each change of either.
  void Index(Entry& entry);
  // Call it before the entry is erased.
  void Unindex(Entry& entry);
  void CountAs(Entry& entry, const Counted& counted);
  base::Result<> MayBegin(const Job& job) const;
  bool HasTooManyEnded(uid_t user) const;
  // The job of the tag that has not ended, else the newest; of one user or of all.
  std::optional<JobId> NewestOf(const std::string& tag, std::optional<uid_t> user) const;
  // The job other than `but` that has the tag and has not ended; nullptr: none.
  const Job* HolderOf(const std::string& tag, JobId but) const;
  void Number(Job& job, base::WallTime at);
  void TakeIn(Job job, std::vector<JobId>& ids);
  void EnqueueMany(std::vector<Job> jobs, Done<std::vector<JobId>> done);
  void StoreArrival(const std::shared_ptr<Arrival>& arrival);
  static void LeaveRun(Entry& entry);
  // Changes the job's request and stores it; undoes the change if it cannot be stored. Only the request is
  // undone: the job's state and progress stay as they are, written or not.
  void ChangeStored(Entry& entry, const std::function<void(Job&)>& change,
                    std::function<void(const base::Result<>&)> done);
  void OnChangeStored(JobId id, OnTheirWay::iterator change, bool stored);
  // Stores the change that `event` makes to a waiting job, and answers with the job; kConflict: the event
  // changes nothing.
  void Decide(JobId id, const JobEvent& event, Done<Job> done);
  // Does the same, but the change takes effect once it is on the disk.
  void DecideStored(JobId id, const JobEvent& event, Done<Job> done);
  void BeginAttached(Job job, std::string how, Done<Job> done);
  void AnswerOnceStored(JobId id, Done<Job> done);
  void WatchRoot(Entry& entry);
  void WatchLater(Entry& entry, const base::Error& error);
  void WatchContainer(Entry& entry);
  // The oldest process of the job.
  std::optional<base::ProcessId> OldestIn(const Job& job) const;
  void OnRootEnded(JobId id, bool another_boot);
  void StopAttached(JobId id);
  void EndAttachedAfter(Entry& entry, base::Millis more);
  void MakeLink(Entry& entry);
  void Launch(Entry& entry);
  void Discard(Entry& entry);
  void PickUp(Entry& entry);
  void OnRecord(JobId id, const keeper::JournalRecord& record);
  void OnConnected(JobId id);
  void OnFailed(JobId id, const base::Error& error);
  void OnLost(Entry& entry, const base::Error& error);
  void Trouble(JobId id, const std::string& what);
  void ApplyEvent(JobId id, const JobEvent& event, Done<void> stored = {});
  void Perform(JobId id, const std::vector<Effect>& effects);
  void Save(JobId id, Done<void> stored, Enclosed enclosed = {});
  void SaveDirtyLater();
  void SendStop(Entry& entry);
  void SendSettings(Entry& entry);
  // Sends the order. `answer` gets the result while the job has this keeper's link.
  using Answered = std::function<void(JobManager& me, Entry& entry, const base::Result<>& outcome)>;
  base::Result<> Order(Entry& entry, keeper::Command command, Answered answered);
  // The keeper knows that the job is not restarted any more; now the store forgets the job.
  void LetGo(JobId id, Done<Job> done);
  void Forget(JobId id);
  void Vanish(JobId id);
  void AnswerWaiters(const Job& job);
  void AnswerReruns(JobId id);
  // Carries out the requests that wait for the start of the job, if the start is over.
  void CarryOutLater(JobId id);
  void ForgetOldOnes();
  void SweepDirectories();
  void DeleteFiles(uid_t user, std::vector<std::filesystem::path> paths);

  boost::asio::io_context& loop_;
  base::FairQueue keeper_work_;  // for the workers, users in turn
  StoreWorker& store_;
  const base::Clock& clock_;
  const base::ProcessTable& table_;
  JobManagerCallbacks callbacks_;
  JobManagerOptions options_;
  std::map<JobId, Entry> entries_;
  std::map<uid_t, UserTotals> users_;  // users who have a job
  std::set<JobId> active_;
  std::set<JobId> ended_;
  std::set<std::tuple<std::size_t, uid_t, JobId>> tags_;  // hash of the tag, owner
  Pool<Variables, VariablesHash> environments_;
  Pool<ResourceLimits, ResourceLimitsHash> limits_;
  Pool<spec::JobSpec, JobSpecHash> specs_;
  Pool<Owner, OwnerHash> owners_;
  Pool<std::string, std::hash<std::string>> directories_;
  std::int64_t last_id_ = 0;
  std::map<std::uint64_t, Waiter> waiters_;
  std::uint64_t last_waiter_ = 0;
  std::vector<Rerun> reruns_;
  std::vector<Later> later_;
  std::map<JobId, Enclosed> dirty_;      // records that the disk refused
  std::map<JobId, OnTheirWay> changes_;  // only of jobs that have changes on their way
  boost::asio::steady_timer retry_;
  base::SlicedWork slices_;
  TreeSignals signals_;
  // A callback that outlives this object finds nullptr here.
  std::shared_ptr<JobManager*> self_;
};

}  // namespace gpuman::jobs
