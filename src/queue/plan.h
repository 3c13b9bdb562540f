// What a pass decided. The daemon carries out cancels, then preemptions and moves, then resumes and starts,
// and tells the book of each as it happens; what it could not carry out the next pass decides again.
//
// Plain values; thread-compatible.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// Why a job waits.
enum class Reason : std::uint8_t {
  kStarts,           // it is started in this pass
  kHeld,             // by a user
  kPaused,           // the queue is
  kDependency,       // waits for another job
  kDependencyNever,  // which can no longer come true
  kBeginTime,
  kRetryDelay,
  kArrayLimit,
  kGroupLimit,
  kQuota,
  kReservation,  // GPUs that would do are kept for others
  kUnmanaged,    // GPUs that would do are used by processes that gpuman does not manage
  kUnavailable,  // GPUs that would do are drained, restricted or lost
  kResources,    // the first that does not fit
  kPriority,     // others are in front
  kMakingRoom,   // others are on their way off the GPU for it
};

// As it stands in JSON: "held_by_user", "paused", "dependency", "dependency_never", "begin_time",
// "retry_delay", "array_limit", "group_limit", "quota", "reservation", "unmanaged", "unavailable",
// "resources", "priority", "making_room"; empty for kStarts.
std::string_view ToString(Reason reason);

// Of one waiting job.
struct Verdict {
  Reason reason = Reason::kStarts;
  std::uint32_t position = 0;  // in the order of what waits for room, from 1; 0: it is not in it
  WallTime start = kNever;     // now where it starts; where it is known without a forecast, then
};

struct Start {
  JobId job{};
  Index waiting = 0;  // its place in Snapshot::waiting
  GpuSet gpus{};
};
struct Resume {
  JobId job{};
  GpuSet gpus{};
};
// Off the GPU: suspended where it can be, else ended to be run again (requeue).
struct Preempt {
  JobId job{};
  bool requeue = false;
  JobId for_job{};
};
struct Move {
  JobId job{};
  GpuSet from{}, to{};
  JobId for_job{};
};
struct Cancel {
  JobId job{};
  Index waiting = 0;
  Reason reason = Reason::kDependencyNever;
};

struct Plan {
  std::vector<Start> starts{};
  std::vector<Resume> resumes{};
  std::vector<Preempt> preempts{};
  std::vector<Move> moves{};
  std::vector<Cancel> cancels{};
  std::vector<Verdict> verdicts{};    // for each of Snapshot::waiting
  std::vector<Index> order{};         // Snapshot::waiting in the order of what is next, by position
  std::optional<WallTime> wake_at{};  // pass again then, even if nothing happens before
};

}  // namespace gpuman::queue
