// Who has to leave a GPU, or go to another one, for a job to have room. Internal to src/queue. Pure;
// thread-safe.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "queue/priority.h"
#include "queue/room.h"

namespace gpuman::queue {

struct RoomPlan {
  GpuSet gpus{};                                  // those of the job that wants room
  std::vector<Index> preempts{};                  // places in Snapshot::running
  std::vector<std::pair<Index, GpuSet>> moves{};  // and where to
};

// Movable jobs on one GPU each are put elsewhere, where they fit by the same rules as a job that starts. The
// GPUs that are free for the job already are not filled by that. nullopt: no such moves are enough.
std::optional<RoomPlan> MakeRoomByMoving(const Room& room, const PlacementRequest& request);

// Preemptible jobs leave: for a job of higher priority, or one that is not preemptible and has waited for
// SchedulingSettings::preempt_wait; each after SchedulingSettings::preempt_after on its GPU, and only if it
// would come after that job if it waited from now on: else it would be back first. As few as possible, those
// first that lose nothing (suspendable), then of lower priority, then newer. With nobody named: all that is
// in the way is leaving already. nullopt: they are not enough. `again`: when it may be worth trying again, if
// time alone helps.
std::optional<RoomPlan> MakeRoomByPreempting(const Room& room, const Ranks& ranks,
                                             const PlacementRequest& request, WallTime& again);

}  // namespace gpuman::queue
