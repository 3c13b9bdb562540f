// The attached jobs: the processes below a foreign process that stands in place of a keeper, or the processes
// in a container. Watches what they live for, and ends them.
//
// There is no journal: all that is known comes from that process or the cgroup, and from the store. Not
// thread-safe: lives on the event loop, where all callbacks run.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/fair_task_executor.h"
#include "base/process.h"
#include "base/result.h"
#include "base/weak_self.h"
#include "jobs/job_index.h"
#include "jobs/job_manager_options.h"
#include "jobs/root_watch.h"
#include "jobs/tree_signals.h"

namespace gpuman::jobs {

class AttachedJobManager {
 public:
  struct Callbacks {
    // The job is watched from now on, or will be soon: its limits hold.
    std::function<void(JobId)> on_watched;
    // No process of the job is left. `another_boot`: they ended with an earlier boot of the machine.
    std::function<void(JobId, bool another_boot)> on_ended;
    std::function<void(JobId, const std::string& what)> on_error;
    // Sends a signal to all processes of the job, as JobManager::Signal.
    std::function<base::Result<>(JobId, int signal, TreeSignals::Done)> signal;
  };

  // All must outlive this object. `workers`: end what is left of a job, in turns between users. `table`:
  // thread-safe.
  AttachedJobManager(boost::asio::io_context& loop, base::FairTaskExecutor& workers,
                     const base::ProcessTable& table, const JobIndex& jobs, const JobManagerOptions& options,
                     Callbacks callbacks);
  AttachedJobManager(const AttachedJobManager&) = delete;
  AttachedJobManager& operator=(const AttachedJobManager&) = delete;

  // The key that the processes of the job have; empty: none.
  static std::string KeyOf(const Job& job);
  // The oldest process in the job's cgroup; nullopt: there is none.
  std::optional<base::ProcessId> OldestIn(const Job& job) const;

  // Watches the process, or the container, that the job lives for; it may have changed in any way meanwhile.
  // on_ended may be called within this call.
  void Watch(JobId id);
  // The job has ended or is gone.
  void Leave(JobId id) { watches_.erase(id); }
  // Ends the processes: SIGTERM, and after the job's grace SIGKILL. Only of a job that is watched; Watch does
  // it for a job whose end was ordered before.
  void End(JobId id);
  // SIGKILL after the job's grace and `more`, if the job has not ended until then.
  void KillAfterGrace(JobId id, base::Millis more);

 private:
  const Job* Running(JobId id) const;  // nullptr: the job is gone or has ended
  RootWatch* WatchOf(JobId id) const;
  void WatchLater(JobId id, const base::Error& error);
  void WatchContainer(JobId id);
  void OnWatched(const Job& job);
  // The root has ended: ends the processes that it left behind, then the job is over.
  void OnRootEnded(JobId id);
  // SIGKILL to all of its processes; then the job is over.
  void Kill(JobId id);

  boost::asio::io_context& loop_;
  base::FairTaskExecutor& workers_;
  const base::ProcessTable& table_;
  const JobIndex& jobs_;
  const JobManagerOptions& options_;
  const Callbacks callbacks_;
  std::map<JobId, std::unique_ptr<RootWatch>> watches_;
  base::WeakSelf<AttachedJobManager> self_{this};
};

}  // namespace gpuman::jobs
