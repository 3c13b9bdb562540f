// All jobs of a daemon: keeps their records, their keepers and the store in step.
//
// Everything that is acknowledged (a Done called with success) is on the disk. A job's record is committed
// before its keeper is started, and after a restart of the daemon Adopt brings every job on from wherever it
// had got to: never started, running, ended meanwhile, its keeper killed, the machine rebooted.
//
// Not thread-safe: lives on the event loop, where all callbacks run. Starting keepers and deleting files
// happen on `workers`, in turns between users, writing on the store's own thread, sending signals on another
// one.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
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
#include "jobs/keeper_link.h"
#include "jobs/launch_plan.h"
#include "jobs/lifecycle.h"
#include "jobs/outbox.h"
#include "jobs/root_watch.h"
#include "jobs/store.h"
#include "jobs/store_worker.h"
#include "jobs/text_account.h"
#include "jobs/tree_signals.h"

namespace gpuman::jobs {

// What is known of a job only while this daemon runs.
struct Runtime {
  base::MonoTime run_started{};  // of the current or last run
  std::string key;               // GPUMAN_JOB_KEY of its processes
};

// Told by the job manager; may call back into it, except for destroying it.
class JobManagerHost {
 public:
  virtual ~JobManagerHost() = default;
  // A job is new, or its record changed.
  virtual void OnJobChanged(const Job& job, const Runtime& runtime) = 0;
  // The job is not gpuman's any more: removed, forgotten or let go.
  virtual void OnJobForgotten(JobId job) = 0;
  virtual void OnNotice(const Job& job, const Notice& notice) = 0;
  // A keeper's record is about to be written into the job's; may add what is known at this moment.
  virtual void OnRecorded([[maybe_unused]] Job& job, [[maybe_unused]] const keeper::JournalRecord& record) {}
  // A run has ended: its account is written with the job's record. May complete it.
  virtual void OnRunEnded(const Job& job, RunAccount& run) = 0;
  // What is to be sent of these notices: it is stored with the record that they are about.
  virtual std::vector<OutboxRow> MessagesAbout(const Job& /*job*/, const std::vector<Notice>& /*notices*/) {
    return {};
  }
  virtual void OnMessagesStored(const std::vector<OutboxRow>& /*rows*/) {}  // or never will be: to be sent
  // Others wait for what becomes of it: it is not forgotten because it is old.
  virtual bool IsNeeded(JobId job) = 0;
  // For the daemon's own log.
  virtual void OnTrouble(const Job& job, const std::string& what) = 0;
  // Time that does not count for its limit: what its keeper is told when it is found again.
  virtual bool IsOffGpu(JobId /*job*/) { return false; }
  // Largest use of memory seen in this run.
  virtual std::optional<base::Bytes> PeakOf(JobId job) = 0;
  // UUIDs of the machine's GPUs.
  virtual std::vector<std::string> AllGpus() = 0;
  // Indices of UUIDs as CUDA counts GPUs; empty where they cannot be known.
  virtual std::map<std::string, unsigned> GpuIndices() { return {}; }
  // LaunchSettings::mps of a job.
  virtual std::vector<std::string> MpsVariablesOf(const Job& /*job*/) { return {}; }
};

struct JobManagerOptions {
  std::filesystem::path keeper_program;
  std::filesystem::path jobs_dir;  // exists
  LaunchSettings launch;           // all_gpus is asked of the host
  std::size_t keep_ended = 1000;   // ended jobs beyond are forgotten (retention.h)
  base::Millis keep_ended_for{30LL * 86'400'000};
  // Of one user but root. 0: any.
  std::size_t running_of_user = 0;  // jobs that run at once
  base::Bytes text_of_user{};       // of jobs that have not ended; and so much of those that have
};

class JobManager {
 public:
  template <typename T>
  using Done = std::function<void(base::Result<T>)>;

  // All must outlive this object.
  JobManager(boost::asio::io_context& loop, boost::asio::thread_pool& workers, StoreWorker& store,
             const base::Clock& clock, const base::ProcessTable& table, JobManagerHost& host,
             JobManagerOptions options);
  ~JobManager();
  JobManager(const JobManager&) = delete;
  JobManager& operator=(const JobManager&) = delete;

  // The store's jobs, once, before anything else.
  void Adopt(StoreContents contents);
  // Holds for jobs started from now on.
  void SetOptions(JobManagerOptions options);

  // Gives `job` its id and starts it. kAlreadyExists: a job that has not ended has the tag; kUnsatisfiable:
  // it passes a bound of its user's.
  void Create(Job job, Done<Job> done);
  // Takes what the process `root` starts, and will start, as a job, until root has ended; itself it is none
  // of it. Its processes are to have AttachedEnvironment. What is left of them when root has ended is ended.
  // A root that is attached under this tag gives the job that it is already. A job that is ended is over when
  // its processes are, though its root goes on. kAlreadyExists: a job that has not ended has the tag;
  // kConflict: root is attached to another job; kNotFound: there is no such process.
  void Attach(Job job, base::ProcessId root, Done<Job> done);
  // The same for what runs in `job.container`, whose cgroup is `job.cgroup`: until nothing does.
  // kAlreadyExists: it is a job already, or its tag is taken; kNotFound: nothing runs in it.
  void AttachContainer(Job job, Done<Job> done);
  std::vector<std::string> AttachedEnvironment(const Job& job) const {
    return jobs::AttachedEnvironment(job, options_.launch);
  }
  // Applies `change` to the settings (limits, priority, restart, grace) and tells the keeper.
  void Update(JobId id, const std::function<void(Job&)>& change, Done<Job> done);
  // Keeps what the daemon knows of the job's way off the GPU, and what is to be sent of that. `done` once it
  // is on the disk, or cannot be; a job that is gone is not kept.
  void SetSuspension(JobId id, std::string record, const std::vector<Notice>& notices,
                     std::function<void()> done);
  // A new run of a running or an ended job. Of a running one `done` is called when the new run has begun, or
  // there will be none. One that is just being started is waited for (OnceStarted).
  void Restart(JobId id, const keeper::Reason& reason, Done<Job> done);
  // What Restart would refuse.
  base::Result<> MayRestart(JobId id);
  // Ends the job and forgets it; done when it is gone, with the job as it ended.
  void Remove(JobId id, const keeper::Reason& reason, Done<Job> done);
  // Forgets the job and lets it run on, unlimited; it will not be restarted. One that is just being started
  // is waited for (OnceStarted).
  void Release(JobId id, Done<Job> done);

  // --- What one user may have (job_manager_bounds.cc) ---
  // kUnsatisfiable, with the numbers: so much more text of jobs, or the job with what it is to become, passes
  // the bound. `claimed`: of jobs on their way.
  base::Result<> MayAddText(const Owner& owner, base::Bytes claimed, base::Bytes more) const;
  base::Result<> MayChangeText(JobId id, const Job& changed);

  // Its keeper is not there yet, or has not begun the run that it is there for.
  bool IsBeingStarted(JobId id) const;
  // Calls `act`, soon, when the job is not just being started, or not any more: it may run, wait, have ended
  // or be gone. A daemon that ends before that does not call it.
  void OnceStarted(JobId id, std::function<void()> act);

  // --- Jobs of the queue (job_manager_queue.cc) ---
  // The id that the next job gets.
  JobId NextId() const { return {last_id_ + 1}; }
  // The first of so many ids that no other job gets.
  JobId Reserve(std::size_t count) {
    last_id_ += static_cast<std::int64_t>(count);
    return {last_id_ - static_cast<std::int64_t>(count) + 1};
  }
  // Gives waiting jobs the next ids, in their order, and keeps them until they are started. All of them, or
  // none; nobody sees one before it is on the disk. Many are taken in slices: the first are seen before the
  // last.
  void Enqueue(std::vector<Job> jobs, Done<std::vector<JobId>> done);
  // Starts a waiting job on these GPUs (UUIDs). kConflict: it does not wait, or is held.
  void Start(JobId id, std::vector<std::string> gpus, Done<Job> done);
  // kConflict: it does not wait.
  void Hold(JobId id, const keeper::Reason& reason, Done<Job> done);
  void Unhold(JobId id, Done<Job> done);
  // A job that runs is being ended when `done` is called; kConflict: it has ended.
  void Cancel(JobId id, const keeper::Reason& reason, Done<Job> done);
  // Ends its run, to run it again when its turn comes. Nothing happens to one that does not run.
  void Requeue(JobId id, const keeper::Reason& reason);
  // Changes what a waiting job asks for.
  void Change(JobId id, const std::function<void(Job&)>& change, Done<Job> done);
  // Time off the GPU does not count for its time limit: the keeper is told.
  void SetOffGpu(JobId id, bool off);

  // For the guard. Unknown jobs and jobs without a keeper: nothing happens.
  void Announce(JobId id, const keeper::Reason& reason);
  // To every process of the job, by a thread; SIGKILL means until none is left that could fork. `done` as
  // TreeSignals::Send has it; not called where the order is refused.
  base::Result<> Signal(
      JobId id, int signal, TreeSignals::Done done = [](const SignalSent&) {});
  void Note(JobId id, const std::string& line);

  // nullptr: no such job. Valid until the next call that changes something.
  const Job* Find(JobId id) const;
  // By id, or by tag: the job that has not ended, else the newest.
  base::Result<JobId> Resolve(const std::string& ref) const;
  // The same; a tag means a job of this user's where there is one.
  base::Result<JobId> Resolve(const std::string& ref, uid_t user) const;
  // kAlreadyExists: a job that has not ended has the tag, but for `but`.
  base::Result<> TagIsFree(const std::string& tag, JobId but = {}) const;
  // The jobs of this tag that have not ended, of this user or of all; of an array its id. The newest first;
  // no more than a few are looked for.
  std::vector<JobId> OpenNamed(const std::string& tag, std::optional<uid_t> user) const;
  // The job, or of an array those of its tasks that are not forgotten, by id.
  std::vector<JobId> TasksOf(JobId job_or_array) const;
  // A task of an array; nullopt: there is none, or it is forgotten.
  std::optional<JobId> TaskOf(JobId array, std::int64_t task) const;
  std::vector<const Job*> All() const;     // by id; long: see After
  std::vector<const Job*> Active() const;  // those that neither wait nor have ended, by id
  // One after the other, by id; nullptr: there is none.
  const Job* After(JobId id) const;
  const Job* Before(JobId id) const;
  std::vector<JobId> Ended() const;  // by id
  // Of jobs that wait.
  std::size_t WaitingCount() const { return entries_.size() - active_.size() - ended_.size(); }

  // Calls `ended` once the job has ended or was let go, at once if it has. 0: called already.
  std::uint64_t WaitForEnd(JobId id, std::function<void(const Job&)> ended);
  void CancelWait(std::uint64_t handle);

  std::filesystem::path LogPathOf(JobId id) const;

 private:
  // As what a job is in its user's totals.
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
    std::unique_ptr<RootWatch> root;   // of an attached job, instead
    bool stop_in_journal = false;
    bool end_unwritten = false;   // it has ended, and its record says so soon
    bool forgotten_soon = false;  // its record is being deleted
    std::string settings_in_journal;
    std::optional<std::string> settings_told;  // over this connection; they are in the journal soon
    std::vector<Done<Job>> removals;           // answered when the job is gone
    std::size_t tag_hash = 0;                  // as it is indexed under
    uid_t tag_user = 0;
    bool tag_indexed = false;
    Counted counted{};
  };
  // What there is of a user's jobs.
  struct UserTotals {
    TextAccount open, ended;
    std::size_t running = 0;  // and has a keeper of ours
    std::size_t jobs = 0;
  };
  // Many jobs on their way into the queue.
  struct Arrival {
    std::shared_ptr<std::vector<Job>> jobs;  // shared with the store's thread while they are written
    base::WallTime at{};
    std::size_t next = 0;
    std::vector<JobId> ids{};
    Done<std::vector<JobId>> done;
  };
  // What is written with a job's record, and with the next one where the disk did not take it.
  struct Enclosed {
    std::vector<RunAccount> runs;
    std::vector<OutboxRow> messages;
  };
  struct Waiter {
    JobId job;
    std::function<void(const Job&)> ended;
  };

  // Who waits for the run of a job after so many.
  struct Rerun {
    JobId job;
    int runs = 0;
    Done<Job> done;
  };

  // What was asked of a job that is just being started.
  struct Later {
    JobId job;
    std::function<void()> act;
  };

  static base::Error NoSuchJob(std::string_view ref);
  static keeper::UpdateSettings SettingsOf(const Job& job);
  base::Result<Entry*> Existing(JobId id);
  // And is not just being forgotten: what would be written then came back with the next daemon.
  base::Result<Entry*> Kept(JobId id);
  void ShareParts(Job& job);
  // Puts it where jobs of its state, and of its tag, are found. After each change of either.
  void Index(Entry& entry);
  // Before it is erased.
  void Unindex(Entry& entry);
  void CountAs(Entry& entry, const Counted& counted);
  base::Result<> MayBegin(const Job& job) const;
  bool HasTooManyEnded(uid_t user) const;
  // The one of the tag that has not ended, else the newest; of one user's.
  std::optional<JobId> NewestOf(const std::string& tag, std::optional<uid_t> user) const;
  // nullptr: no job that has not ended has the tag, but for `but`.
  const Job* HolderOf(const std::string& tag, JobId but) const;
  void Number(Job& job, base::WallTime at);
  void TakeIn(Job job, std::vector<JobId>& ids);
  void EnqueueMany(std::vector<Job> jobs, Done<std::vector<JobId>> done);
  void StoreArrival(const std::shared_ptr<Arrival>& arrival);
  static void LeaveRun(Entry& entry);
  // Changes what is asked of the job, and stores it; taken back where it could not be stored.
  void ChangeStored(Entry& entry, const std::function<void(Job&)>& change,
                    std::function<void(const base::Result<>&)> done);
  // Stores the change that `event` makes to a job that waits, and answers with it; kConflict: it makes none.
  void Decide(JobId id, const JobEvent& event, Done<Job> done);
  void BeginAttached(Job job, std::string how, Done<Job> done);
  void AnswerOnceStored(JobId id, Done<Job> done);
  void WatchRoot(Entry& entry);
  void WatchLater(Entry& entry, const base::Error& error);
  void WatchContainer(Entry& entry);
  // The one of its processes that is the oldest.
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
  void Trouble(JobId id, const std::string& what);
  void ApplyEvent(JobId id, const JobEvent& event, Done<void> stored = {});
  void Perform(JobId id, const std::vector<Effect>& effects);
  void Save(JobId id, Done<void> stored, Enclosed enclosed = {});
  void SaveDirtyLater();
  void SendStop(Entry& entry);
  void SendSettings(Entry& entry);
  // Sends it; what becomes of it is told to `answer` while the job has this keeper's link.
  using Answered = std::function<void(JobManager& me, Entry& entry, const base::Result<>& outcome)>;
  base::Result<> Order(Entry& entry, keeper::Command command, Answered answered);
  // The keeper was told that the job is not restarted any more: now the store forgets it.
  void LetGo(JobId id, Done<Job> done);
  void Forget(JobId id);
  void Vanish(JobId id);
  void AnswerWaiters(const Job& job);
  void AnswerReruns(JobId id);
  // What waits for the start of the job, where that is over.
  void CarryOutLater(JobId id);
  void ForgetOldOnes();
  void SweepDirectories();
  void DeleteFiles(uid_t user, std::vector<std::filesystem::path> paths);

  boost::asio::io_context& loop_;
  base::FairQueue keeper_work_;  // for the workers, users in turn
  StoreWorker& store_;
  const base::Clock& clock_;
  const base::ProcessTable& table_;
  JobManagerHost& host_;
  JobManagerOptions options_;
  std::map<JobId, Entry> entries_;
  std::map<uid_t, UserTotals> users_;  // who have a job
  std::set<JobId> active_;
  std::set<JobId> ended_;
  std::set<std::tuple<std::size_t, uid_t, JobId>> tags_;  // hash of the tag, owner
  Pool<Variables, VariablesHash> environments_;
  Pool<ResourceLimits, ResourceLimitsHash> limits_;
  Pool<QueueSpec, QueueSpecHash> queue_specs_;
  Pool<Owner, OwnerHash> owners_;
  Pool<std::string, std::hash<std::string>> directories_;
  std::int64_t last_id_ = 0;
  std::map<std::uint64_t, Waiter> waiters_;
  std::uint64_t last_waiter_ = 0;
  std::vector<Rerun> reruns_;
  std::vector<Later> later_;
  std::map<JobId, Enclosed> dirty_;  // records the disk did not take
  boost::asio::steady_timer retry_;
  base::SlicedWork slices_;
  TreeSignals signals_;
  // Callbacks that outlive this object find it gone.
  std::shared_ptr<JobManager*> self_;
};

}  // namespace gpuman::jobs
