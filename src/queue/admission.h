// What a submission is told before it is accepted: whether it could ever run here, and whether its owner may
// have one more job in the queue. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "queue/snapshot.h"

namespace gpuman::queue {

// kUnsatisfiable, with the numbers, for a need that no end of another job and no waiting can meet: more GPUs
// than there are or than a quota allows, an unknown model, more memory than a GPU, the machine or a quota
// has, a time limit beyond a quota of GPU-hours. GPUs that are drained, restricted, lost or used by others
// may come back: they count. kInvalidArgument for a shared job that names no memory.
base::Result<> CanEverRun(const Snapshot& snapshot, const Need& need, Index user, Index project);

// kUnsatisfiable where `more` jobs beside the `queued` ones would exceed a quota of queued jobs.
base::Result<> MayQueue(const Account& account, std::string_view what, int queued, int more);

// kConflict, with the obstacle, where a job that runs or is suspended cannot go to this GPU now. A user names
// the GPU, so the job's own request for GPUs does not matter. Not for jobs on several GPUs.
base::Result<> MayGoTo(const Snapshot& snapshot, Index running, std::size_t gpu, WallTime now);

// Picks `count` GPUs to keep from `start` to `end`: those that are free first then, and of those the ones
// with the highest index. kUnsatisfiable where other reservations leave too few.
base::Result<GpuSet> PickReserved(const Snapshot& snapshot, int count, WallTime start, WallTime end,
                                  WallTime now);

}  // namespace gpuman::queue
