// Who is next. Pure; thread-safe.
//
// Every advantage is worth waiting time, so a job's rank is a time: when it would have had to be submitted to
// be as far in front without any advantage. The earliest is next, the lower id among equals.
//
//   rank = waiting since - (priority - 128) * priority_step - fair_share * f
//                        - short_job * 2^(-limit / short_scale)
//
// limit is SchedulingSettings::unlimited_as for a job without one. f says how much of their share its user
// and its project used lately: 2^(-use / share), 1 for nothing, 1/2 for just the share, towards 0 for more.
// It is the mean of the project's among the projects and the user's among those of the project; the user's
// alone where no project has shares. All advantages are bounded and waiting is not: a job is overtaken only
// by those that come within 255 * priority_step + fair_share + short_job after it, so it becomes the first
// some day whatever else is submitted.
#pragma once

#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// What a job takes while it runs.
Rate RateOf(const Snapshot& snapshot, const Need& need);

// Of a user within a project, or of a project.
struct FairShare {
  double entitled = 1;  // part of all that is theirs by the shares
  double used = 0;      // part of all that they used lately
  double factor = 1;    // f
};

// Shares are those of who used, runs or wants something; up to a GPU-hour for each of them nobody's use
// counts. What running jobs used so far counts in.
struct FairShares {
  std::vector<FairShare> members{};   // of Snapshot::members
  std::vector<FairShare> projects{};  // of Snapshot::projects; the last one: of those without shares
};
// The project that counts for a member; kNone: all those without shares (0) together. A name made up for each
// job would be as good as having used nothing otherwise.
Index LevelOf(const Snapshot& snapshot, const Member& member);
FairShares FairSharesOf(const Snapshot& snapshot, WallTime now);

// What a job is in front by, in waiting time.
struct Advantage {
  Millis priority{0}, fair_share{0}, short_job{0};
};

// A job among those that want to run.
struct Ranked {
  std::int64_t rank = 0;  // from Ranks; after Sort milliseconds after the first
  std::uint32_t entry =
      0;  // a place in Snapshot::waiting or, counted on from there, in Snapshot::running (to be resumed)
  Index need = kNone;  // of a waiting job that no quota, throttle or reservation is about; else kNone
};

// Ranks in milliseconds of the wall. Refers to the snapshot. Thread-compatible.
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

// In order. O(n) with a radix sort; those of equal rank by id.
void Sort(const Snapshot& snapshot, std::vector<Ranked>& ranked);

}  // namespace gpuman::queue
