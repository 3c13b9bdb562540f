// Takes what happens to jobs from the job manager: tells the guard and the modules of it.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "daemon/core/kernel_kills.h"
#include "jobs/job_manager_callbacks.h"

namespace gpuman::daemon {

class Core;
enum class UnwatchReason;

class JobEventForwarder {
 public:
  // `core` must outlive this object.
  // `kernel_log`: as KernelKills takes it.
  JobEventForwarder(Core& core, std::filesystem::path kernel_log)
      : core_(core), kernel_kills_(std::move(kernel_log)) {}

  // Registers what the core itself is told and knows; modules register the rest. This object must outlive the
  // job manager.
  void Register(jobs::JobManagerCallbacks& callbacks);

 private:
  void OnJobChanged(const jobs::Job& job, const jobs::VolatileState& runtime);
  void OnJobForgotten(base::JobId job);
  void OnRecorded(jobs::Job& job, const keeper::JournalRecord& record);
  void OnRunEnded(const jobs::Job& job, jobs::RunAccount& run);
  std::map<std::string, unsigned> GpuIndices() const;
  void Leave(base::JobId job, UnwatchReason why);
  void SetGuarded(const jobs::Job& job, const jobs::VolatileState& runtime);

  Core& core_;
  KernelKills kernel_kills_;
  std::set<base::JobId> watched_;  // jobs that run: the guard and the modules watch them
  std::map<base::JobId, base::MonoTime> stopping_since_;
};

}  // namespace gpuman::daemon
