// Who is next. Pure; thread-safe.
//
// Every advantage is worth waiting time, so a job's rank is a time: when it would have had to be submitted to
// be as far in front without any advantage. The earliest is next, the lower id among equals.
//
//   rank = waits since - (priority - 128) * priority_step - fair_share * f - short_job * 2^(-limit /
//   short_scale)
//
// f is 2^(-use / share): 1 for who used nothing lately, 1/2 for who used their share, towards 0 for who used
// more. All advantages are bounded and waiting is not: a job is overtaken only by those that were submitted
// within
//   255 * priority_step + fair_share + short_job
// after it, so it becomes the first some day whatever else is submitted.
#pragma once

#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// What a job takes while it runs.
Rate RateOf(const Snapshot& snapshot, const Need& need);

// f of each user. Shares are those of users who used, run or want something; up to a GPU-hour for each of
// them nobody's use counts. What running jobs used so far counts in.
std::vector<double> FairShares(const Snapshot& snapshot, WallTime now);

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
  std::int64_t Of(WallTime since, Index user, Index need, int priority) const {
    return (since.time_since_epoch().count() - (priority - kUsualPriority) * step_ - of_user_[user] -
            of_need_[need]);
  }

 private:
  std::int64_t step_;
  std::vector<std::int64_t> of_user_{}, of_need_{};
};

// In order. O(n) with a radix sort; those of equal rank by id.
void Sort(const Snapshot& snapshot, std::vector<Ranked>& ranked);

}  // namespace gpuman::queue
