// What the job manager tells and asks the program around it, a function for each.
//
// The part of the program that knows the answer registers its function (JobManager::callbacks), before
// JobManager::Adopt. A function that nobody registers does nothing and knows nothing. The job manager calls
// all of them on the event loop. A function may call the job manager, but may not destroy it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/units.h"
#include "jobs/accounting.h"
#include "jobs/job.h"
#include "jobs/kernel_kill.h"
#include "jobs/lifecycle.h"
#include "jobs/outbox.h"
#include "keeper/journal.h"

namespace gpuman::jobs {

// Facts about a job that are known only while this daemon runs.
struct VolatileState {
  base::MonoTime run_started{};  // of the current or last run
  std::string key;               // GPUMAN_JOB_KEY of its processes
};

struct JobManagerCallbacks {
  // --- What happens to jobs ---
  // A job is new, or its record changed.
  std::function<void(const Job&, const VolatileState&)> on_job_changed = [](const Job&,
                                                                            const VolatileState&) {};
  // gpuman does not manage the job any more: it was removed, forgotten or released.
  std::function<void(JobId)> on_job_forgotten = [](JobId) {};
  std::function<void(const Job&, const JobNotice&)> on_notice = [](const Job&, const JobNotice&) {};
  // A keeper's journal record is about to be applied to the job; the function may add facts that are known
  // now.
  std::function<void(Job&, const keeper::JournalRecord&)> on_recorded = [](Job&,
                                                                           const keeper::JournalRecord&) {};
  // A run has ended. Its account is written with the job's record; the function may complete it.
  std::function<void(const Job&, RunAccount&)> on_run_ended = [](const Job&, RunAccount&) {};
  // For the daemon's log.
  std::function<void(const Job&, const std::string& what)> on_error = [](const Job&, const std::string&) {};

  // --- Messages to users ---
  // The messages to send for these notices; they are stored with the record that the notices are about.
  std::function<std::vector<OutboxRow>(const Job&, const std::vector<JobNotice>&)> messages_about =
      [](const Job&, const std::vector<JobNotice>&) { return std::vector<OutboxRow>{}; };
  // Called also if the rows could not be stored: the messages are sent in both cases.
  std::function<void(const std::vector<OutboxRow>&)> on_messages_stored = [](const std::vector<OutboxRow>&) {
  };

  // --- What the job manager does not know itself ---
  // What ended the run that this record (RunEnded) tells of, if the kernel did for want of host memory. Asked
  // where IsUnexplainedFailure says so, before the record is applied.
  std::function<std::optional<KernelKill>(const Job&, const keeper::JournalRecord&)> kernel_kill =
      [](const Job&, const keeper::JournalRecord&) { return std::optional<KernelKill>{}; };
  // Whether others wait for the job's end: then the job manager does not forget the job because of its age.
  std::function<bool(JobId)> is_needed = [](JobId) { return false; };
  // Whether the job is off the GPU: that time does not count for its time limit. The job manager also tells
  // this to a keeper that it finds again.
  std::function<bool(JobId)> is_off_gpu = [](JobId) { return false; };
  // Returns the file that the job's keeper is to hold (keeper::HoldFile); nullopt: none. The job manager asks
  // when the keeper is connected.
  std::function<std::optional<base::Fd>(JobId)> held_file = [](JobId) { return std::optional<base::Fd>{}; };
  // The largest use of memory in this run.
  std::function<std::optional<base::Bytes>(JobId)> peak = [](JobId) { return std::optional<base::Bytes>{}; };
  // UUIDs of the machine's GPUs.
  std::function<std::vector<std::string>()> all_gpus = [] { return std::vector<std::string>{}; };
  // Indices of UUIDs as CUDA counts GPUs; empty: not known.
  std::function<std::map<std::string, unsigned>()> gpu_indices = [] {
    return std::map<std::string, unsigned>{};
  };
  // Job::gated of a run that is about to start.
  std::function<bool(const Job&)> wants_gate = [](const Job&) { return false; };
  // LaunchSettings::mps of a job.
  std::function<std::vector<std::string>(const Job&)> mps_variables = [](const Job&) {
    return std::vector<std::string>{};
  };
  // Calls `then` when all is there that the job's programs need beside their variables, once and soon. The
  // job has no keeper before. `then` may be called at once, and after the job manager's end.
  std::function<void(const Job&, std::function<void()> then)> before_start =
      [](const Job&, const std::function<void()>& then) { then(); };
};

}  // namespace gpuman::jobs
