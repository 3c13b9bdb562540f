// When there will be room for a job, if no other job starts before it. Internal to src/queue. Pure;
// thread-safe.
#pragma once

#include <optional>

#include "queue/priority.h"
#include "queue/room_checker.h"

namespace gpuman::queue {

struct EarliestStart {
  WallTime at = kNever;  // kNever: a job without a known end must end first
  GpuSet gpus{};         // the job's GPUs then
};

// Computed from the time limits of running jobs and from reservations. Of the GPUs that are free by then, the
// result has those that are busy longest, so that other jobs can use the rest meanwhile. nullopt: the GPUs
// that can be used today are not enough. A GPU where what stays of suspended jobs leaves too little cannot be
// used.
std::optional<EarliestStart> Earliest(const RoomChecker& room, const Ranks& ranks,
                                      const PlacementRequest& request);

}  // namespace gpuman::queue
