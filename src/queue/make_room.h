// Which jobs have to leave a GPU, or move to another one, so that a job has room. Internal to src/queue.
// Pure; thread-safe.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "queue/priority.h"
#include "queue/room.h"

namespace gpuman::queue {

struct RoomPlan {
  GpuSet gpus{};                                  // of the job that wants room
  std::vector<Index> preempts{};                  // places in Snapshot::running
  std::vector<std::pair<Index, GpuSet>> moves{};  // and the GPUs that they go to
};

// Moves movable jobs that have one GPU each to other GPUs, where they fit by the same rules as a job that
// starts. Does not fill the GPUs that are free for the job already. nullopt: no such moves are enough.
std::optional<RoomPlan> MakeRoomByMoving(const Room& room, const PlacementRequest& request);

// Preemptible jobs leave: for a job of higher priority, or for one that is not preemptible and has waited for
// SchedulingSettings::preempt_wait. Each leaves only after SchedulingSettings::preempt_after on its GPU, and
// only if it would come after that job if it waited from now on: otherwise it would be back first. As few as
// possible leave, first those that lose nothing (suspendable), then those of lower priority, then newer ones.
// An empty list: all obstacles are leaving already. nullopt: they are not enough. `again`: when to try again,
// if time alone may help.
std::optional<RoomPlan> MakeRoomByPreempting(const Room& room, const Ranks& ranks,
                                             const PlacementRequest& request, WallTime& again);

}  // namespace gpuman::queue
