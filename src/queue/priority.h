// Which job is next. Pure; thread-safe.
//
// Every advantage counts as waiting time, so a job's rank is a time: the time at which a job without any
// advantage would have to be submitted to come as early. The job with the earliest rank is next; among equal
// ranks, the job with the lower id.
//
//   rank = waiting since - (priority - 128) * priority_step - fair_share * f
//                        - short_job * 2^(-limit / short_scale)
//
// limit is the job's time limit, or SchedulingSettings::unlimited_as for a job without one. f says how much
// of their share the job's user and project used lately: 2^(-use / share), which is 1 for no use, 1/2 for
// exactly the share, and near 0 for much more. f is the mean of two values: the project's among the projects,
// and the user's among the users of the project. If no project has shares, f is the user's value alone. All
// advantages are bounded and waiting time is not: only jobs that are submitted within 255 * priority_step +
// fair_share + short_job after a job can overtake it. So each job becomes the first at some time, whatever
// other jobs are submitted.
#pragma once

#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// The part of the GPUs that a job takes while it runs.
UsageRate RateOf(const Snapshot& snapshot, const Need& need);

// For a user within a project, or for a project.
struct FairShare {
  double entitled = 1;  // part of the whole that the shares give
  double used = 0;      // part of the whole that was used lately
  double factor = 1;    // f
};

// Shares are divided only among users and projects that used GPUs lately, or whose jobs run or wait. For each
// of them, use of up to one GPU-hour does not count. The use of running jobs so far counts.
struct FairShares {
  std::vector<FairShare> members{};   // for Snapshot::members
  std::vector<FairShare> projects{};  // for Snapshot::projects; the last one: for those without shares
};
// The project that counts for a member. kNone: all projects without shares (0) count together. Otherwise a
// user could hide past use by a new project name for each job.
Index LevelOf(const Snapshot& snapshot, const ProjectMember& member);
FairShares FairSharesOf(const Snapshot& snapshot, WallTime now);

// A job's advantages, in waiting time.
struct PriorityFactors {
  Millis priority{0}, fair_share{0}, short_job{0};
};

// A job among those that want to run.
struct Ranked {
  std::int64_t rank = 0;  // from Ranks; after Sort: milliseconds after the first rank
  // A place in Snapshot::waiting or, counted on from its end, in Snapshot::running (to be resumed).
  std::uint32_t entry = 0;
  Index need = kNone;  // for a waiting job that no quota, throttle or reservation concerns; else kNone
};

// Ranks in milliseconds of wall time. Refers to the snapshot. Thread-compatible.
class Ranks {
 public:
  Ranks(const Snapshot& snapshot, WallTime now);
  std::int64_t Of(WallTime since, Index member, Index need, int priority) const {
    return since.time_since_epoch().count() - (priority - kUsualPriority) * step_ - of_member_[member] -
           of_need_[need];
  }
  PriorityFactors Of(Index member, Index need, int priority) const {
    return {Millis((priority - kUsualPriority) * step_), Millis(of_member_[member]), Millis(of_need_[need])};
  }

 private:
  std::int64_t step_;
  std::vector<std::int64_t> of_member_{}, of_need_{};
};

// Sorts by rank, equal ranks by id. O(n) with a radix sort.
void Sort(const Snapshot& snapshot, std::vector<Ranked>& ranked);

}  // namespace gpuman::queue
