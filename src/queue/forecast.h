// When waiting jobs will probably start. Pure; thread-safe.
//
// Jobs are put one after the other, in the order of a pass, onto the GPUs that are free for them first; each
// is taken to run for its time limit, one without for SchedulingSettings::presumed. What nobody knows is left
// out: jobs that end earlier, gaps that shorter ones fill, jobs that come later and go in front. So estimates
// are mostly late, seldom early. Quotas and throttles count as the moment when enough of what they count will
// have ended.
#pragma once

#include <vector>

#include "queue/plan.h"

namespace gpuman::queue {

struct Estimates {
  std::vector<WallTime> starts;
  // By place as well: the start rests on SchedulingSettings::presumed, so on a job that has no time limit.
  std::vector<bool> presumed;
};

// For each of snapshot.waiting; kNever where nobody can tell (held, waits for a job, no such GPU now), and
// for all but the first `most` of plan.order. O(most * gpus): some 100 ms for 100,000 jobs and 64 GPUs.
Estimates Forecast(const Snapshot& snapshot, const Plan& plan, WallTime now, std::size_t most);

}  // namespace gpuman::queue
