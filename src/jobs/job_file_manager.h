// The files of jobs: the directory of each incarnation, with spec and journal, and the logs.
//
// Deletes on one thread at a time, apart from the work on keepers, and in turns between users: a user may
// have put millions of files into a directory of traces. What could not be deleted goes at the next start
// (Sweep). Not thread-safe: lives on the event loop.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "base/fair_task_executor.h"
#include "jobs/job_index.h"
#include "jobs/job_manager_options.h"

namespace gpuman::jobs {

class JobFileManager {
 public:
  // `to_threads` calls its argument on a thread, `to_loop` on the loop. `options` must outlive this object.
  JobFileManager(base::Executor to_threads, base::Executor to_loop, const JobManagerOptions& options)
      : removals_(std::move(to_threads), std::move(to_loop), {.of_all = 1, .of_user = 1}),
        options_(options) {}

  std::filesystem::path DirectoryOf(const Job& job) const { return JobDirectory(options_.jobs_dir, job); }
  std::filesystem::path LogOf(JobId id) const { return LogPath(options_.launch.log_dir, id); }

  std::filesystem::path TracesOf(JobId id) const { return TracePath(options_.launch.trace_dir, id); }

  void DeleteDirectory(const Job& job) { Delete(job.owner->uid, {DirectoryOf(job)}); }
  // The directory, the logs and the traces.
  void DeleteAll(const Job& job);
  // Deletes the directories that belong to no job: of a request whose commit failed or never happened, or of
  // jobs that were removed or released. Directories whose keeper lives stay. Blocks for these. Call it before
  // anything is created: an id whose commit never happened is given again, and its new job must not find the
  // old directory. Traces of jobs that are gone are deleted later, in turns.
  void Sweep(const JobIndex& jobs);

 private:
  void SweepTraces(const JobIndex& jobs);
  void DeleteTraces(uid_t user, const std::filesystem::path& traces);
  void Delete(uid_t user, std::vector<std::filesystem::path> paths);

  base::FairTaskExecutor removals_;
  const JobManagerOptions& options_;
};

}  // namespace gpuman::jobs
