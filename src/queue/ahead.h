// When there will be room for a job, if nothing starts before it. Internal to src/queue. Pure; thread-safe.
#pragma once

#include <optional>

#include "queue/priority.h"
#include "queue/room.h"

namespace gpuman::queue {

struct Ahead {
  WallTime at = kNever;  // kNever: an end that nobody knows has to come first
  GpuSet gpus{};         // its GPUs then
};

// From the time limits of who runs and from reservations. Of the GPUs that are free by then those that are
// busy longest, so that the others can be used meanwhile. nullopt: not with the GPUs that can be used today.
std::optional<Ahead> Earliest(const Room& room, const Ranks& ranks, const PlacementRequest& request);

}  // namespace gpuman::queue
