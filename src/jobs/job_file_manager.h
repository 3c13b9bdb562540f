// The files of jobs: the directory of each incarnation, with spec and journal, and the logs.
//
// Deletes on `workers`, in turns between users. What could not be deleted goes at the next start (Sweep). Not
// thread-safe: lives on the event loop.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "base/fair_task_executor.h"
#include "jobs/job_index.h"
#include "jobs/job_manager_options.h"

namespace gpuman::jobs {

class JobFileManager {
 public:
  // Both must outlive this object.
  JobFileManager(base::FairTaskExecutor& workers, const JobManagerOptions& options)
      : workers_(workers), options_(options) {}

  std::filesystem::path DirectoryOf(const Job& job) const { return JobDirectory(options_.jobs_dir, job); }
  std::filesystem::path LogOf(JobId id) const { return LogPath(options_.launch.log_dir, id); }

  std::filesystem::path TracesOf(JobId id) const { return TracePath(options_.launch.trace_dir, id); }

  void DeleteDirectory(const Job& job) { Delete(job.owner->uid, {DirectoryOf(job)}); }
  // The directory, the logs and the traces.
  void DeleteAll(const Job& job);
  // Deletes the directories that belong to no job: of a request whose commit failed or never happened, or of
  // jobs that were removed or released. Directories whose keeper lives stay. Blocks. Call it before anything
  // is created: an id whose commit never happened is given again, and its new job must not find the old
  // directory.
  void Sweep(const JobIndex& jobs);

 private:
  void DeleteTraces(const Job& job);
  void Delete(uid_t user, std::vector<std::filesystem::path> paths);

  base::FairTaskExecutor& workers_;
  const JobManagerOptions& options_;
};

}  // namespace gpuman::jobs
