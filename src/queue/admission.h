// The checks of a submission before the daemon accepts it: whether the job could ever run here, and whether
// its owner may have one more job in the queue. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string_view>

#include "queue/snapshot.h"

namespace gpuman::queue {

// kUnsatisfiable, with the numbers: this machine could not meet the need even if all other jobs had ended.
// Examples: more GPUs than the machine has or a quota allows, an unknown model, more memory than a GPU, the
// machine or a quota has, a time limit beyond a quota of GPU-hours. GPUs that are drained, restricted, lost
// or used by others may come back, so this check counts them. kInvalidArgument: the job is shared and names
// no memory. `asked`: the request for GPUs that `need` was made of (SnapshotUpdater::NeedOf).
base::Result<> CanEverRun(const Snapshot& snapshot, const Need& need, const GpuRequest& asked, Index user,
                          Index project);

// kUnsatisfiable: `more` jobs in addition to the `queued` ones would exceed the account's quota of queued
// jobs.
base::Result<> MayQueue(const QueueAccount& account, std::string_view what, int queued, int more);

// The most dependencies that all waiting jobs of a user have together. A list that several jobs have, as the
// tasks of an array, counts once. Each view of a job lists them, and each change of a job looks at them.
inline constexpr std::size_t kMaxDependenciesOfUser = 1'000'000;
// kUnsatisfiable: `more` dependencies in addition to the `there` ones would exceed that.
base::Result<> MayDepend(std::string_view user, std::size_t there, std::size_t more);

// kConflict, with the obstacle: the running or suspended job cannot go to this GPU now. A user names the GPU,
// so the job's own request for GPUs does not matter. A job on several GPUs is always refused.
base::Result<> MayGoTo(const Snapshot& snapshot, Index running, std::size_t gpu, WallTime now);

// Picks `count` GPUs to keep from `start` to `end`: first those that are free earliest from `start` on; among
// equal ones, those with the highest index. kUnsatisfiable: other reservations leave too few GPUs.
base::Result<GpuSet> PickReserved(const Snapshot& snapshot, int count, WallTime start, WallTime end,
                                  WallTime now);

}  // namespace gpuman::queue
