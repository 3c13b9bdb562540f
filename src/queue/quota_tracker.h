// Counts during a pass what jobs hold of quotas and throttles. Internal to src/queue. Refers to the snapshot.
// Thread-compatible.
#pragma once

#include <vector>

#include "queue/plan.h"
#include "queue/snapshot.h"

namespace gpuman::queue {

// What an account holds at the moment.
struct CurrentAccountUsage {
  int running = 0;  // jobs, suspended ones too
  int gpus = 0;     // without suspended ones
  // The GPU time that its running jobs have used, and the time that their time limits still allow; infinity
  // if a job has no limit. Whole numbers, so sums are exact.
  double gpu_millis = 0;
  double GpuHours() const { return gpu_millis / 3'600'000; }
};
// What one job holds.
CurrentAccountUsage UsageOf(const Need& need, Millis ran, bool suspended);

class QuotaTracker {
 public:
  explicit QuotaTracker(const Snapshot& snapshot);

  // No quota and no throttle can refuse this job.
  bool IsFree(const WaitingJobInput& job) const {
    return job.array == kNone && job.group == kNone && !IsLimited(job.user, job.project);
  }
  // kArrayLimit, kGroupLimit, kQuota; kStarts if none of them prevents it.
  WaitReason Refuses(const WaitingJobInput& job) const;
  // The same for a suspended job that comes back. Such a job is counted already, except for its GPUs.
  WaitReason Refuses(const RunningJobInput& job) const;
  void Start(const WaitingJobInput& job);
  void Resume(const RunningJobInput& job);

  const CurrentAccountUsage& user(Index user) const { return users_[user]; }
  const CurrentAccountUsage& project(Index project) const { return projects_[project]; }
  int array(Index array) const { return arrays_[array]; }
  int group(Index group) const { return groups_[group]; }

 private:
  void Add(Index user, Index project, const CurrentAccountUsage& more);

  bool IsLimited(Index user, Index project) const {
    return limited_users_[user] || (project != kNone && limited_projects_[project]);
  }

  const Snapshot& snapshot_;
  std::vector<CurrentAccountUsage> users_, projects_;
  std::vector<bool> limited_users_{}, limited_projects_{};  // those with a quota
  std::vector<int> arrays_, groups_;
};

// Whether the account's quota lets it have `more`.
bool Allows(const QueueAccount& account, const CurrentAccountUsage& held, const CurrentAccountUsage& more);

}  // namespace gpuman::queue
