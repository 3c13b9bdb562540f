// When waiting jobs will probably start. Pure; thread-safe.
//
// Jobs are placed one after the other, in the order of a pass, on the GPUs that are free for them first; each
// is assumed to run for its time limit, or for SchedulingSettings::presumed without one. The forecast cannot
// know of jobs that end earlier, shorter jobs that fill gaps, and later jobs that go in front. So estimates
// are mostly late, seldom early. A quota or throttle counts as the moment when enough of the jobs that it
// counts will have ended.
#pragma once

#include <vector>

#include "queue/plan.h"

namespace gpuman::queue {

struct Estimates {
  std::vector<WallTime> starts;
  // In the same order: whether the start rests on SchedulingSettings::presumed, so on a job without a time
  // limit.
  std::vector<bool> presumed;
};

// One start for each of snapshot.waiting. kNever where it cannot be told (held, waits for a job, no such GPU
// now), and for all but the first `most` of plan.order. O(most * gpus): some 100 ms for 100,000 jobs and 64
// GPUs.
Estimates Forecast(const Snapshot& snapshot, const Plan& plan, WallTime now, std::size_t most);

}  // namespace gpuman::queue
