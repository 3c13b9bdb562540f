// The decisions of a pass. The daemon carries out cancels, then preemptions and moves, then resumes and
// starts, and reports each to the updater as it happens. If the daemon could not carry out a decision, the
// next pass decides again.
//
// Plain values; thread-compatible.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// Why a job waits.
enum class WaitReason : std::uint8_t {
  kStarts,           // this pass starts it
  kHeld,             // by a user
  kPaused,           // the queue is paused
  kDependency,       // waits for another job
  kDependencyNever,  // waits for another job, in vain
  kBeginTime,
  kRetryDelay,
  kArrayLimit,
  kGroupLimit,
  kQuota,
  kReservation,  // suitable GPUs are kept for others
  kUnmanaged,    // suitable GPUs are used by processes that gpuman does not manage
  kUnavailable,  // suitable GPUs are drained, restricted or lost
  kResources,    // the job is the first that does not fit
  kPriority,     // other jobs come first
  kMakingRoom,   // other jobs leave the GPU for it
};

// The words in JSON: "held_by_user", "paused", "dependency", "dependency_never", "begin_time",
// "retry_delay", "array_limit", "group_limit", "quota", "reservation", "unmanaged", "unavailable",
// "resources", "priority", "making_room"; empty for kStarts.
std::string_view ToString(WaitReason reason);

// What a pass has decided about one waiting job.
struct Verdict {
  WaitReason reason = WaitReason::kStarts;
  std::uint32_t position = 0;  // among the jobs that wait for room, from 1; 0: it does not wait for room
  WallTime start = kNever;     // now if it starts; otherwise the time, if it is known without a forecast
};

struct StartDecision {
  JobId job{};
  Index waiting = 0;  // its place in Snapshot::waiting
  GpuSet gpus{};
};
struct ResumeDecision {
  JobId job{};
  GpuSet gpus{};
};
// A job leaves the GPU. The daemon suspends a job that is suspendable; it ends any other job, to run it again
// (requeue). It also ends a suspendable job that would leave too much memory on its GPUs: then `left` says
// how much, on all of them together.
struct PreemptDecision {
  JobId job{};
  bool requeue = false;
  JobId for_job{};
  base::Bytes left{};
};
struct MoveDecision {
  JobId job{};
  GpuSet from{}, to{};
  JobId for_job{};
};
struct CancelDecision {
  JobId job{};
  Index waiting = 0;
  WaitReason reason = WaitReason::kDependencyNever;
};

struct Plan {
  std::vector<StartDecision> starts{};
  std::vector<ResumeDecision> resumes{};
  std::vector<PreemptDecision> preempts{};
  std::vector<MoveDecision> moves{};
  std::vector<CancelDecision> cancels{};
  std::vector<Verdict> verdicts{};    // for each of Snapshot::waiting
  std::vector<Index> order{};         // places in Snapshot::waiting, the next job first
  std::optional<WallTime> wake_at{};  // the next pass is due then, even if nothing happens before
};

}  // namespace gpuman::queue
