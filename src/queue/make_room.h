// Which jobs have to leave a GPU, or move to another one, so that a job has room. Internal to src/queue.
// Pure; thread-safe.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "queue/priority.h"
#include "queue/room_checker.h"

namespace gpuman::queue {

struct RoomPlan {
  GpuSet gpus{};                  // of the job that wants room
  std::vector<Index> preempts{};  // places in Snapshot::running
  std::vector<Index> ends{};      // those of `preempts` of which too much would stay if they were suspended
  std::vector<std::pair<Index, GpuSet>> moves{};  // and the GPUs that they go to
};

// Plans moves of movable jobs that have one GPU each to other GPUs, where they fit by the same rules as a job
// that starts. No job moves to a GPU that is already free for the job that wants room. nullopt: no such moves
// are enough.
std::optional<RoomPlan> MakeRoomByMoving(const RoomChecker& room, const PlacementRequest& request);

// Plans which preemptible jobs leave for a job of higher priority, or for a job that is not preemptible and
// has waited for SchedulingSettings::preempt_wait. Each preemptible job leaves only after
// SchedulingSettings::preempt_after on its GPU, and only if it would come after that job if it waited from
// now on: otherwise it would get the GPU back first. As few jobs as possible leave: first those that lose
// nothing (suspendable), then those of lower priority, then newer ones. What stays of suspended jobs is not
// free for the job: where it is too much, jobs are ended that could be suspended, or nobody leaves. An empty
// list: all jobs that are in the way are leaving already. nullopt: preemption does not make enough room.
// `again`: when to try again, if time alone may help.
std::optional<RoomPlan> MakeRoomByPreempting(const RoomChecker& room, const Ranks& ranks,
                                             const PlacementRequest& request, WallTime& again);

}  // namespace gpuman::queue
