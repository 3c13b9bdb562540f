// All input of a scheduling pass. The updater (snapshot_updater.h) keeps a snapshot up to date; tests write
// snapshots by hand.
//
// Data that many jobs have in common (needs, owners) is stored once, and rows refer to it by index, so that
// 100,000 waiting jobs are one array of small rows. Plain values; thread-compatible. Points in time are wall
// times in milliseconds, so a change of the clock affects `begin` and reservations here too; durations come
// from the monotonic clock.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gpu/inventory.h"
#include "queue/gpu_set.h"
#include "queue/job_spec.h"
#include "queue/settings.h"
#include "queue/usage.h"

namespace gpuman::queue {

// An index into one of the snapshot's tables.
using Index = std::uint32_t;
inline constexpr Index kNone = std::numeric_limits<Index>::max();

inline constexpr WallTime kNever = WallTime::max();

struct Gpu {
  unsigned index = 0;  // NVML's, for people
  // For a part of a GPU (MIG): the number of the instance on the GPU, and the name of its profile, "1g.18gb".
  // A program has one instance and no other GPU beside it.
  std::optional<unsigned> instance{};
  std::string profile{};
  bool shares_memory = false;  // an instance that shares its memory with other instances
  std::string uuid{};
  std::string model{};
  base::Bytes memory{};     // for all jobs together: the whole minus the guard's reserve
  base::Bytes foreign{};    // the part of `memory` that processes of no job use, without ignored ones
  bool unmanaged = false;   // a process of no job is there: exclusive jobs do not get the GPU
  bool restricted = false;  // `gpu restrict`: the queue does not use it
  bool drained = false;     // nothing new starts on it
  bool split = false;       // into instances; also drained
  bool unhealthy = false;   // also drained
  bool lost = false;        // the driver cannot reach it
  std::string holder{};     // the foreign process, for reasons: "pid 4711 (python, user ann)"
};

// "0", "0:1".
std::string NumberOf(const Gpu& gpu);
// Whether `model` is a part of the GPU's name, in either case; empty: any. For an instance the match has to
// reach into the part that names the instance: "h200" means whole GPUs only, "1g.18gb" and "H200 MIG"
// instances.
bool IsOfModel(const Gpu& gpu, std::string_view model);

using gpu::Link;

// The needs of a job. Jobs with the same needs share one row.
struct Need {
  int gpus = 0;
  GpuSet possible{};  // the GPUs that it may have; with `exact` all of them
  bool exact = false;
  bool share = false;
  bool preemptible = false;
  base::Bytes memory{};       // on each GPU; what a shared job takes
  base::Bytes free_memory{};  // on each GPU, at the start
  base::Bytes host_memory{};
  int cpus = 0;
  Millis time_limit{0};  // 0: none
  friend bool operator==(const Need&, const Need&) = default;
};

// The limits of a user or a project. Absent: no limit.
struct Quota {
  std::optional<int> running{};       // jobs
  std::optional<int> gpus{};          // held at a time; a shared job counts all its GPUs
  std::optional<int> queued{};        // waiting jobs; checked at submission (admission.h)
  std::optional<double> gpu_hours{};  // within `window`, with what running jobs may still use
  Millis window{std::chrono::hours(24)};
  friend bool operator==(const Quota&, const Quota&) = default;
};

// A user or a project.
struct QueueAccount {
  std::string name{};
  double shares = 1;  // in fair share: a project's among projects, a user's among the users of each project
  Quota quota{};
  double window_gpu_seconds = 0;    // of runs that ended, within the quota's window
  WallTime window_relief = kNever;  // when the oldest use next leaves the window
};

// A user within a project: fair share is by members.
struct ProjectMember {
  Index user = 0;
  Index project = kNone;
  AccountUsage usage{};  // decayed, of runs that ended
};

// The most jobs of an array, or of a group, that may run at a time. 0: no limit.
struct ConcurrencyLimit {
  std::string name{};
  int limit = 0;
};

enum class DependencyState : std::uint8_t { kMet, kWaits, kImpossible };

// A job that waits for its start. A pass does not read the rows in memory order, so each row fills one cache
// line.
struct alignas(64) WaitingJobInput {
  JobId id{};
  WallTime since{};                  // submitted, or requeued
  WallTime begin = WallTime::min();  // begin time, or the end of a retry's delay
  Index need = 0;
  Index user = 0;
  Index project = kNone;
  Index member = 0;
  Index array = kNone;
  Index group = kNone;
  std::int16_t priority = kUsualPriority;
  DependencyState dependency = DependencyState::kMet;
  bool held = false;
  bool retries = false;  // `begin` is the end of a retry's delay
  bool auto_cancel = true;
};

enum class RunningPhase : std::uint8_t {
  kRunning,    // on its GPUs, or on the way to them
  kLeaving,    // ends, or is on its way off the GPU: its memory is free soon
  kMoving,     // on its way from `leaving` to the rest of `gpus`
  kSuspended,  // off the GPU, with its host memory and its processors
};

// Memory that stays on a GPU while its job is suspended: contexts, and what its processes share (NCCL).
struct ResidualOnGpu {
  std::size_t gpu = 0;  // place in Snapshot::gpus
  base::Bytes bytes{};
};

// A job that has started and not ended, whether the queue started it or not.
struct RunningJobInput {
  JobId id{};
  Index need = 0;
  Index user = 0;
  Index project = kNone;
  Index member = 0;
  Index array = kNone;
  Index group = kNone;
  std::int16_t priority = kUsualPriority;
  RunningPhase phase = RunningPhase::kRunning;
  bool suspendable = false;  // the driver can take it off the GPU and back
  bool movable = false;      // the driver can bring it back on another GPU
  bool idle = false;         // it makes no call, and has agreed to leave until its next one
  bool wants_back = false;   // suspended, and to be resumed when there is room; not if a user suspended it
  GpuSet gpus{};             // all GPUs that it uses, now or soon
  GpuSet leaving{};          // those of `gpus` that it leaves (kMoving)
  // Says how much memory stays on each GPU while the job is suspended; for a suspendable job that runs, how
  // much would stay, as far as that is known.
  std::vector<ResidualOnGpu> left{};
  Millis ran{0};          // of this run, without the time it was suspended
  Millis undisturbed{0};  // time since it was last started, resumed or moved
  WallTime since{};       // since when it is suspended
};

// The memory of the job that stays on this GPU, or would.
inline base::Bytes LeftOn(const RunningJobInput& job, std::size_t gpu) {
  base::Bytes sum;
  for (const ResidualOnGpu& each : job.left)
    if (each.gpu == gpu) sum += each.bytes;
  return sum;
}

// GPUs that are kept for some users between two times. The queue starts no other user's job that could still
// run then.
struct Reservation {
  std::int64_t id = 0;
  std::string name{};
  GpuSet gpus{};
  WallTime start{}, end{};
  std::vector<Index> users{};
};

struct Host {
  std::optional<base::Bytes> memory{};  // nullopt: not counted
  std::optional<int> cpus{};
};

struct Snapshot {
  SchedulingSettings settings{};
  bool paused = false;  // nothing starts
  std::vector<Gpu> gpus{};
  std::vector<Link> links{};  // gpus.size() squared, row by row; empty: not known
  Host host{};
  std::vector<Need> needs{};
  std::vector<QueueAccount> users{}, projects{};
  std::vector<ProjectMember> members{};
  std::vector<ConcurrencyLimit> arrays{}, groups{};
  std::vector<WaitingJobInput> waiting{};  // in any order
  std::vector<RunningJobInput> running{};
  std::vector<Reservation> reservations{};
};

}  // namespace gpuman::queue
