#include "queue/quota_tracker.h"

#include <algorithm>
#include <limits>

namespace gpuman::queue {

CurrentAccountUsage UsageOf(const Need& need, Millis ran, bool suspended) {
  CurrentAccountUsage held{.running = 1, .gpus = suspended ? 0 : need.gpus};
  if (need.gpus == 0) return held;
  const double whole = need.time_limit.count() > 0
                           ? static_cast<double>(std::max(need.time_limit, ran).count())
                           : std::numeric_limits<double>::infinity();
  held.gpu_millis = need.gpus * whole;
  return held;
}

bool Allows(const QueueAccount& account, const CurrentAccountUsage& held, const CurrentAccountUsage& more) {
  const Quota& quota = account.quota;
  if (quota.running && held.running + more.running > *quota.running) return false;
  if (quota.gpus && more.gpus > 0 && held.gpus + more.gpus > *quota.gpus) return false;
  if (!quota.gpu_hours || !(more.gpu_millis > 0)) return true;
  return account.window_gpu_seconds / 3600 + held.GpuHours() + more.GpuHours() <= *quota.gpu_hours;
}

QuotaTracker::QuotaTracker(const Snapshot& snapshot)
    : snapshot_(snapshot),
      users_(snapshot.users.size()),
      projects_(snapshot.projects.size()),
      arrays_(snapshot.arrays.size(), 0),
      groups_(snapshot.groups.size(), 0) {
  for (const QueueAccount& user : snapshot.users) limited_users_.push_back(user.quota != Quota{});
  for (const QueueAccount& project : snapshot.projects) limited_projects_.push_back(project.quota != Quota{});
  for (const RunningJobInput& job : snapshot.running) {
    Add(job.user, job.project,
        UsageOf(snapshot.needs[job.need], job.ran, job.phase == RunningPhase::kSuspended));
    if (job.array != kNone) ++arrays_[job.array];
    if (job.group != kNone) ++groups_[job.group];
  }
}

void QuotaTracker::Add(Index user, Index project, const CurrentAccountUsage& more) {
  const auto add = [&](CurrentAccountUsage& held) {
    held.running += more.running;
    held.gpus += more.gpus;
    held.gpu_millis += more.gpu_millis;
  };
  add(users_[user]);
  if (project != kNone) add(projects_[project]);
}

WaitReason QuotaTracker::Refuses(const WaitingJobInput& job) const {
  if (job.array != kNone && snapshot_.arrays[job.array].limit > 0 &&
      arrays_[job.array] >= snapshot_.arrays[job.array].limit)
    return WaitReason::kArrayLimit;
  if (job.group != kNone && groups_[job.group] >= snapshot_.groups[job.group].limit)
    return WaitReason::kGroupLimit;
  if (!IsLimited(job.user, job.project)) return WaitReason::kStarts;
  const CurrentAccountUsage more = UsageOf(snapshot_.needs[job.need], Millis(0), false);
  if (!Allows(snapshot_.users[job.user], users_[job.user], more)) return WaitReason::kQuota;
  if (job.project != kNone && !Allows(snapshot_.projects[job.project], projects_[job.project], more))
    return WaitReason::kQuota;
  return WaitReason::kStarts;
}

WaitReason QuotaTracker::Refuses(const RunningJobInput& job) const {
  const CurrentAccountUsage more{.gpus = snapshot_.needs[job.need].gpus};
  if (!Allows(snapshot_.users[job.user], users_[job.user], more)) return WaitReason::kQuota;
  if (job.project != kNone && !Allows(snapshot_.projects[job.project], projects_[job.project], more))
    return WaitReason::kQuota;
  return WaitReason::kStarts;
}

void QuotaTracker::Start(const WaitingJobInput& job) {
  Add(job.user, job.project, UsageOf(snapshot_.needs[job.need], Millis(0), false));
  if (job.array != kNone) ++arrays_[job.array];
  if (job.group != kNone) ++groups_[job.group];
}

void QuotaTracker::Resume(const RunningJobInput& job) {
  Add(job.user, job.project, {.gpus = snapshot_.needs[job.need].gpus});
}

}  // namespace gpuman::queue
