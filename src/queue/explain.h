// Explains why jobs wait, in sentences with the numbers. Pure; thread-compatible.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "queue/dependencies.h"
#include "queue/plan.h"
#include "queue/quota_tracker.h"
#include "queue/room_checker.h"

namespace gpuman::queue {

// "2 GPUs", "1 GPU of those named", "20GiB on each of 2 GPUs, shared", "no GPU".
std::string Describe(const Need& need);

// "job 7".
std::string NameById(JobId job);
// The jobs for which a job waits, possibly in vain: "waits for job 7 to finish and job 8 to start". `name_of`
// gives the name of each.
std::string Explain(WaitReason reason, const Dependencies& depends,
                    const std::function<std::string(JobId)>& name_of = NameById);

// A job or process that holds a GPU which a waiting job may get.
struct GpuHolder {
  std::string gpu;      // UUID
  JobId job{};          // {}: a process of no job
  std::string process;  // "pid 4711 (python, user ann)"
};
struct Blockers {
  std::vector<GpuHolder> holders;  // in the order of the GPUs
  std::vector<JobId> in_front;     // of a job that waits for others to start first: those, the next one first
};

// The caller makes one explainer for a snapshot and its plan, and calls it for each job that a user looks at.
// The explainer refers to the snapshot and the plan.
class Explainer {
 public:
  // `dependents` gives the jobs for which a job waits, so that a sentence can name them.
  Explainer(const Snapshot& snapshot, const Plan& plan, WallTime now, const Dependents& dependents);
  // Empty for a job that starts.
  std::string Of(Index waiting) const;
  // Nobody is in the way of a job that waits for anything but GPUs.
  Blockers BlockersOf(Index waiting) const;

 private:
  std::string Resources(const WaitingJobInput& job) const;
  std::string Quotas(const WaitingJobInput& job) const;
  std::string List(const Need& need, bool (*holds)(const Gpu&), std::string_view what) const;
  std::string OutOfUse(const Need& need) const;
  std::vector<GpuHolder> HoldersFor(const Need& need) const;
  std::string WhatStays(const WaitingJobInput& job) const;

  const Snapshot& snapshot_;
  const Plan& plan_;
  const Dependents& dependents_;
  WallTime now_;
  RoomChecker room_;        // after the pass
  QuotaTracker quota_use_;  // after the pass too
  Host host_{};             // free after the pass
};

}  // namespace gpuman::queue
