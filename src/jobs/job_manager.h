// All jobs of a daemon: takes what users, the queue, the guard and the keepers want of a job, and keeps its
// record, its keeper and the store in step.
//
// Everything that is acknowledged (a Done called with success) is on the disk. A job's record is committed
// before its keeper is started. After a restart of the daemon Adopt continues every job from its stored
// state: not started yet, running, or ended meanwhile; also after its keeper was killed or the machine was
// rebooted.
//
//   request, journal record --> lifecycle.h (pure) --> JobIndex, RecordWriter, JobManagerCallbacks
//                                                  --> JobKeepers, AttachedJobManager: what is to be done
//
// Owns its parts, and has the order in which they work. Not thread-safe: lives on the event loop, where all
// callbacks run. Keepers are started and files are deleted on `workers`, in turns between users. The store's
// thread writes, and another thread sends signals. A call for a job that is unknown gets kNotFound; one that
// the disk refuses gets the store's error, and has changed nothing.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fair_task_executor.h"
#include "base/process.h"
#include "base/result.h"
#include "base/weak_self.h"
#include "jobs/attached_job_manager.h"
#include "jobs/enqueuer.h"
#include "jobs/job.h"
#include "jobs/job_file_manager.h"
#include "jobs/job_index.h"
#include "jobs/job_keepers.h"
#include "jobs/job_manager_callbacks.h"
#include "jobs/job_manager_options.h"
#include "jobs/job_waiters.h"
#include "jobs/lifecycle.h"
#include "jobs/record_writer.h"
#include "jobs/request_undo_log.h"
#include "jobs/shared_parts.h"
#include "jobs/store.h"
#include "jobs/store_worker.h"
#include "jobs/tree_signals.h"

namespace gpuman::jobs {

class JobManager {
 public:
  template <typename T>
  using Done = std::function<void(base::Result<T>)>;

  // All must outlive this object.
  JobManager(boost::asio::io_context& loop, boost::asio::thread_pool& workers, StoreWorker& store,
             const base::Clock& clock, const base::ProcessTable& table, JobManagerOptions options);
  JobManager(const JobManager&) = delete;
  JobManager& operator=(const JobManager&) = delete;

  // Functions are registered after the construction and before Adopt.
  JobManagerCallbacks& callbacks() { return callbacks_; }
  // Takes the jobs of the store; call it once, before anything else.
  void Adopt(StoreContents contents);
  // Holds for jobs started from now on.
  void SetOptions(JobManagerOptions options) { options_ = std::move(options); }

  // --- What there is ---
  const JobIndex& index() const { return index_; }
  const Job* Find(JobId id) const { return index_.Find(id); }  // nullptr: no such job
  std::vector<const Job*> Active() const { return index_.Active(); }
  std::filesystem::path LogPathOf(JobId id) const { return files_.LogOf(id); }
  std::filesystem::path TracesOf(JobId id) const { return files_.TracesOf(id); }
  // True: the job's keeper is not there yet, or the keeper has not begun the run for which it was started.
  bool IsBeingStarted(JobId id) const;
  // JobWaiters::WaitForEnd; 0 also for a job that is unknown.
  std::uint64_t WaitForEnd(JobId id, std::function<void(const Job&)> ended);
  void CancelWait(std::uint64_t handle) { waiters_.CancelWait(handle); }
  // Calls `act`, soon, when the job is not being started any more: it may run, wait, have ended or be gone.
  // If the daemon ends before that, `act` is not called.
  void OnceStarted(JobId id, std::function<void()> act);

  // --- New jobs ---
  // Gives `job` its id and starts it. kAlreadyExists: a job that has not ended has the tag; kUnsatisfiable:
  // the job exceeds a bound of its user.
  void Create(Job job, Done<Job> done);
  // As Enqueuer::Enqueue: the jobs wait until Start.
  void Enqueue(std::vector<Job> jobs, Done<std::vector<JobId>> done) {
    enqueuer_.Enqueue(std::move(jobs), std::move(done));
  }
  // Reserves `count` ids for Enqueue, which no other job gets, and returns the first.
  JobId Reserve(std::size_t count) { return index_.Reserve(count); }
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
  // kUnsatisfiable: the user's text would pass its bound. `claimed`: text of jobs on their way to Enqueue.
  base::Result<> MayAddText(const JobOwner& owner, base::Bytes claimed, base::Bytes more) const {
    return index_.accounts().MayAddText(owner, claimed, more, options_.of_user);
  }
  base::Result<> MayChangeText(JobId id, const Job& changed) {
    return index_.MayChangeText(id, changed, options_.of_user);
  }

  // --- Any job ---
  // Applies `change` to the settings (limits, priority, restart, grace) and tells the keeper.
  void Update(JobId id, const std::function<void(Job&)>& change, Done<Job> done);
  // Stores the job's suspension record, and the messages for `notices`. Calls `done` when they are on the
  // disk, or cannot be written. Stores nothing for a job that is gone.
  void SetSuspension(JobId id, std::string record, const std::vector<JobNotice>& notices,
                     std::function<void()> done);
  // Starts a new run of a running or an ended job. For a running job `done` is called when the new run has
  // begun, or when no new run will begin. If the job is just being started, the request waits (OnceStarted).
  void Restart(JobId id, const keeper::EndReason& reason, Done<Job> done);
  // The error with which Restart would refuse.
  base::Result<> MayRestart(JobId id);
  // Ends the job and forgets it. Calls `done` when the job is gone, with the job as it ended.
  void Remove(JobId id, const keeper::EndReason& reason, Done<Job> done);
  // Forgets the job and lets it run on without limits; it will not be restarted. If the job is just being
  // started, the request waits (OnceStarted).
  void Release(JobId id, Done<Job> done);

  // --- Jobs of the queue ---
  // Starts a waiting job on these GPUs (UUIDs). kConflict: the job does not wait, or is held.
  void Start(JobId id, std::vector<std::string> gpus, Done<Job> done);
  // kConflict: the job does not wait.
  void Hold(JobId id, const keeper::EndReason& reason, Done<Job> done);
  void Unhold(JobId id, Done<Job> done);
  // When `done` is called, a running job is being ended. kConflict: the job has ended.
  void Cancel(JobId id, const keeper::EndReason& reason, Done<Job> done);
  // Ends the job's run; the job runs again when its turn comes. Does nothing if the job does not run.
  void Requeue(JobId id, const keeper::EndReason& reason);
  // Changes the request of a waiting job. kConflict: the job does not wait.
  void Change(JobId id, const std::function<void(Job&)>& change, Done<Job> done);
  // Gives the job's keeper this file to hold; the manager asks for it again (JobManagerCallbacks::held_file)
  // for a keeper that is connected later.
  void HoldFile(JobId id, const base::Fd& file);
  // Returns what the last keeper has saved of the file that it held; errors as keeper::ReadSavedHeld.
  base::Result<std::string> SavedHeldOf(const Job& job) const;
  // Tells the keeper that the job left its GPU or came back: time off the GPU does not count for its time
  // limit.
  void SetOffGpu(JobId id, bool off);

  // --- The guard: Announce and Note do nothing for a job that is unknown or has no keeper ---
  void Announce(JobId id, const keeper::EndReason& reason);
  // Sends the signal to every process of the job, on another thread. For SIGKILL the thread repeats this
  // until no process is left that could fork. `done`: as in TreeSignals::Send; it is not called if the order
  // is refused. kConflict: the job has no keeper yet.
  base::Result<> Signal(
      JobId id, int signal, TreeSignals::Done done = [](const SignalOrderResult&) {});
  void Note(JobId id, const std::string& line);

 private:
  JobKeepers::Callbacks KeeperCallbacks();
  AttachedJobManager::Callbacks AttachmentCallbacks();
  const VolatileState& RuntimeOf(JobId id) const;
  void TellChanged(const Job& job) const { callbacks_.on_job_changed(job, RuntimeOf(job.id)); }
  void ReportError(JobId id, const std::string& what) const;

  // --- A job changes (job_manager.cc) ---
  void ApplyEvent(JobId id, const JobEvent& event, Done<void> stored = {});
  RecordWriter::Stored OnceRunIsOver(const Job& before, const Job& now, Done<void> stored);
  void LeaveRun(const Job& job);
  void Perform(JobId id, const std::vector<Effect>& effects);
  void AnswerWaiters(JobId id);

  // --- Its keeper (job_manager_keepers.cc), its processes (job_manager_attach.cc) ---
  void Launch(const Job& job);
  void StartKeeper(const Job& job);
  void Discard(const Job& job);
  void PickUp(const Job& job);
  void OnRecord(JobId id, const keeper::JournalRecord& record);
  void OnConnected(JobId id);
  void OnFailed(JobId id, const base::Error& error);
  void OnLost(const Job& job, const base::Error& error);
  void BeginAttached(Job job, std::string how, Done<Job> done);
  void WatchAttached(const Job& job);
  void AnswerOnceStored(JobId id, Done<Job> done);

  // --- Requests are carried out (job_manager_requests.cc, job_manager_queue.cc) ---
  // Puts the job on the disk as it is now; if the disk refuses it, nothing is written again later. `stored`
  // is not called once this object is gone.
  void StoreRecord(const Job& job, Done<void> stored);
  void ChangeStored(JobId id, const std::function<void(Job&)>& change, Done<void> done);
  void RestartRunning(const Job& job, const keeper::EndReason& reason, const Done<Job>& done);
  // The job begins a run: puts it into the index, and has its keeper prepared. Returns the job as it was.
  Job PutStarted(Job started);
  void RestartEnded(const Job& job, const keeper::EndReason& reason, Done<Job> done);
  void TakeBackStart(const Job& before, int incarnation);
  // Stores the change that `event` makes to a waiting job, and answers with the job; kConflict: the event
  // changes nothing.
  void Decide(JobId id, const JobEvent& event, Done<Job> done);
  // Does the same, but the change takes effect once it is on the disk.
  void DecideStored(JobId id, const JobEvent& event, Done<Job> done);

  // --- Jobs that go (job_manager_forget.cc) ---
  // The keeper knows that the job is not restarted any more; now the store forgets the job.
  void LetGo(JobId id, Done<Job> done);
  void Forget(JobId id);
  void Vanish(JobId id);
  void ForgetOldOnes();

  boost::asio::io_context& loop_;
  StoreWorker& store_;
  const base::Clock& clock_;
  const base::ProcessTable& table_;
  JobManagerCallbacks callbacks_;
  JobManagerOptions options_;
  base::FairTaskExecutor keeper_work_;  // for the workers, users in turn
  JobIndex index_;
  SharedParts parts_;
  JobFileManager files_;
  JobWaiters waiters_;
  RequestUndoLog changes_;
  std::map<JobId, VolatileState> runtimes_;  // of jobs that run or have run
  JobKeepers keepers_;
  AttachedJobManager attachments_;
  RecordWriter writer_;
  Enqueuer enqueuer_;
  TreeSignals signals_;
  base::WeakSelf<JobManager> self_{this};
};

}  // namespace gpuman::jobs
