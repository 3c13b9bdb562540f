// Which job is next. Pure; thread-safe.
//
// Every advantage is worth waiting time, so a job's rank is a time: when it would have had to be submitted to
// come as early without any advantage. The earliest rank is next, the lower id among equals.
//
//   rank = waiting since - (priority - 128) * priority_step - fair_share * f
//                        - short_job * 2^(-limit / short_scale)
//
// limit is SchedulingSettings::unlimited_as for a job without one. f says how much of their share its user
// and its project used lately: 2^(-use / share), 1 for nothing, 1/2 for exactly the share, towards 0 for
// more. It is the mean of the project's f among the projects and the user's among those of the project; only
// the user's where no project has shares. All advantages are bounded and waiting is not: only jobs that come
// within 255 * priority_step + fair_share + short_job after a job can overtake it, so it becomes the first
// some day whatever else is submitted.
#pragma once

#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// What a job takes while it runs.
Rate RateOf(const Snapshot& snapshot, const Need& need);

// For a user within a project, or for a project.
struct FairShare {
  double entitled = 1;  // part of the whole that the shares give
  double used = 0;      // part of the whole that was used lately
  double factor = 1;    // f
};

// Only users and projects that used, run or want something share. For each of them up to a GPU-hour of use
// counts for nothing. What running jobs have used so far counts.
struct FairShares {
  std::vector<FairShare> members{};   // for Snapshot::members
  std::vector<FairShare> projects{};  // for Snapshot::projects; the last one: for those without shares
};
// The project that counts for a member; kNone: all projects without shares (0) together. Otherwise a new
// project name for each job would be as good as having used nothing.
Index LevelOf(const Snapshot& snapshot, const Member& member);
FairShares FairSharesOf(const Snapshot& snapshot, WallTime now);

// How far ahead a job is, in waiting time.
struct Advantage {
  Millis priority{0}, fair_share{0}, short_job{0};
};

// A job among those that want to run.
struct Ranked {
  std::int64_t rank = 0;  // from Ranks; after Sort milliseconds after the first
  std::uint32_t entry =
      0;  // a place in Snapshot::waiting or, counted on from its end, in Snapshot::running (to be resumed)
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
  Advantage Of(Index member, Index need, int priority) const {
    return {Millis((priority - kUsualPriority) * step_), Millis(of_member_[member]), Millis(of_need_[need])};
  }

 private:
  std::int64_t step_;
  std::vector<std::int64_t> of_member_{}, of_need_{};
};

// Sorts by rank, equal ranks by id. O(n) with a radix sort.
void Sort(const Snapshot& snapshot, std::vector<Ranked>& ranked);

}  // namespace gpuman::queue
