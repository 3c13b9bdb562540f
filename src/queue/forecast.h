// When waiting jobs will probably start. Pure; thread-safe.
//
// The forecast places the jobs one after the other, in the order of a pass, on the GPUs that are free for
// them first. It assumes that each job runs for its time limit, or for SchedulingSettings::presumed without
// one. It cannot know that some jobs end earlier, that shorter jobs fill gaps, and that later jobs go in
// front. So estimates are mostly late, seldom early. A quota or throttle permits the start when enough of the
// jobs that it counts will have ended.
#pragma once

#include <vector>

#include "queue/plan.h"

namespace gpuman::queue {

struct StartEstimates {
  std::vector<WallTime> starts;
  // In the same order: whether the start rests on SchedulingSettings::presumed, so on a job without a time
  // limit.
  std::vector<bool> presumed;
};

// One start for each of snapshot.waiting. kNever: the start cannot be estimated (the job is held, waits for a
// job, or the machine has no such GPU now), or the job is not among the first `most` of plan.order. O(most *
// gpus): some 100 ms for 100,000 jobs and 64 GPUs.
StartEstimates Forecast(const Snapshot& snapshot, const Plan& plan, WallTime now, std::size_t most);

}  // namespace gpuman::queue
