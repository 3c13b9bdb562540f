// A job as gpuman keeps it: its request and its progress.
//
// This is the stored record (store.h) and the subject of the state machine (lifecycle.h). Plain values;
// thread-compatible. Wall times are for people; no decision uses them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/memory_parts.h"
#include "base/process.h"
#include "base/units.h"
#include "jobs/environment.h"
#include "jobs/indirect_optional.h"
#include "jobs/shared.h"
#include "keeper/spec.h"
#include "spec/job_spec.h"
#include "spec/job_state.h"

namespace gpuman::jobs {

using spec::IsEnded;
using spec::IsWaiting;
using spec::JobState;

// Words of `reason` that decide the job's state after an ordered end.
inline constexpr std::string_view kCancelledWord = "cancelled";
inline constexpr std::string_view kTimeLimitWord = "time_limit";
inline constexpr std::string_view kMemoryLimitWord = "memory_limit";  // the guard ended the run
// The word of a job whose run failed by itself, soon after it was refused memory; and of one that waits to
// run with more.
inline constexpr std::string_view kMemoryRefusedWord = "memory_refused";
// A user removed the job; the counts of runs take this for cancelled.
inline constexpr std::string_view kRemovedWord = "removed";

using base::JobId;

// The user that runs a command: the credentials of the caller who submitted it.
struct JobOwner {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};
  std::string user{};
  friend bool operator==(const JobOwner&, const JobOwner&) = default;
};

// Hashes the text of the spec, so that the hash includes fields that are added later.
struct JobSpecHash {
  std::size_t operator()(const spec::JobSpec& spec) const;
};

struct OwnerHash {
  std::size_t operator()(const JobOwner& owner) const {
    return std::hash<std::string>()(owner.user) + owner.uid;
  }
};

// From the number RLIMIT_… to the soft and the hard value.
using ResourceLimits = std::map<int, std::pair<std::uint64_t, std::uint64_t>>;

struct ResourceLimitsHash {
  std::size_t operator()(const ResourceLimits& limits) const {
    std::size_t hash = limits.size();
    for (const auto& [resource, values] : limits)
      hash = hash * 1'000'003 ^ (static_cast<std::size_t>(resource) + values.first * 31 + values.second);
    return hash;
  }
};

// A container of Kubernetes. Its cgroup is Job::cgroup.
struct Container {
  std::string name_space, pod, name;  // as Kubernetes names them
  std::string id;                     // as the container runtime gives it
  friend bool operator==(const Container&, const Container&) = default;
};

// The first allocation that a program of a run did not get.
struct FirstRefusal {
  base::Bytes asked;
  base::Bytes used;
  std::optional<base::Bytes> limit;
  base::WallTime at{};
  // As of RefusedAllocation; absent: not known.
  std::optional<base::MemoryParts> parts{};
  std::optional<base::Bytes> pools_unused{};
  std::optional<base::Bytes> device_free{};
  friend bool operator==(const FirstRefusal&, const FirstRefusal&) = default;
};

// The last allocation that a program of a job did not get.
struct RefusedAllocation {
  std::string gpu;  // UUID
  base::Bytes asked;
  base::Bytes used;                  // by the job on this GPU, at that time
  std::optional<base::Bytes> limit;  // at that time
  std::string by;                    // "limit", "sharing" or "device"
  base::WallTime at{};
  bool context = false;  // it was a context; `asked` is 0 where nobody knew what one costs there
  // Absent: not known.
  std::optional<std::int64_t> count{};        // of the run's refusals on this GPU, with this one
  std::optional<FirstRefusal> first{};        // of these
  std::optional<base::MemoryParts> parts{};   // of `used`
  std::optional<base::Bytes> pools_unused{};  // the part of the process's pools that no allocation had
  std::optional<base::Bytes> device_free{};   // on the whole GPU

  // Whether a run that ended then may have ended because of it. A program ends soon after what made it fail,
  // mostly at once: it may write a report or save its state. The refusal is of that run, so it was before the
  // end, whatever the clocks of the two times say.
  bool MayHaveEnded(base::WallTime ended) const { return at + base::Millis{60'000} >= ended; }
  friend bool operator==(const RefusedAllocation&, const RefusedAllocation&) = default;
};

// The most memory that a job, or one process of it, has used of one GPU at a time.
struct MemoryPeak {
  std::string gpu;         // UUID
  std::optional<int> pid;  // absent: the whole job
  std::string program;     // the name of the process's program; empty: not known, or the whole job
  base::Bytes bytes;
  std::optional<base::MemoryParts> parts{};  // of `bytes`; absent: not known
  friend bool operator==(const MemoryPeak&, const MemoryPeak&) = default;
};

// A job that asked for `--memory auto` and was refused memory by its limit runs once more, with a larger one.
struct MoreMemory {
  base::Bytes had;       // the limit
  base::Bytes asked;     // what it refused; 0: not known, as the guard ended the run
  base::Bytes next;      // the limit of the next run
  bool granted = false;  // the job was queued with it, and gets no more again
  friend bool operator==(const MoreMemory&, const MoreMemory&) = default;
};

struct Job {
  // The request.
  JobId id;
  std::string tag;
  Shared<JobOwner> owner;
  std::vector<std::string> command;
  Shared<std::string> directory;
  Environment environment;
  std::uint32_t umask = 022;
  Shared<ResourceLimits> resource_limits;
  Shared<spec::JobSpec> spec;     // the user's request, with later changes
  std::vector<std::string> gpus;  // UUIDs; empty: every GPU, also those that appear later

  // The job belongs to the queue: the queue orders its start and chooses its GPUs.
  bool queued = false;
  // An attached job: gpuman did not start it. Its processes are those that `keeper`, a foreign process,
  // starts. Its environment holds only the key of its processes.
  bool attached = false;
  // The job consists of the processes in this container. It is attached, but no process stands in place of a
  // keeper (`keeper` is {0, 0}, an id that no process has).
  std::shared_ptr<const Container> container;  // copies share it; null: none, as most jobs
  spec::ArrayTask array;
  JobId redo_of;  // the job that this one repeats; 0: none

  // The progress.
  JobState state = JobState::kStarting;
  std::optional<std::string> reason;
  std::optional<std::string> reason_detail;
  std::optional<base::ProcessId> process;  // main process of the current or last run
  std::optional<base::ProcessId> keeper;
  std::string cgroup;   // the job's own; empty: none
  std::string boot_id;  // of the keeper: a process id has a meaning only within one boot
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<JobState> verdict;  // the job's state after the last end, unless it runs again
  std::optional<base::Bytes> peak;
  IndirectOptional<base::MemoryParts> peak_parts;  // what that was, where their sum is `peak`
  // Since the job started last, once it has ended: of the job on each of its GPUs, then of the processes that
  // had most.
  IndirectOptional<std::vector<MemoryPeak>> peaks;
  std::vector<std::string> notes;               // of the current or last run: requests that could not be met
  IndirectOptional<RefusedAllocation> refusal;  // of the last run, once it has ended
  IndirectOptional<MoreMemory> more_memory;     // set at the end of a run that was refused memory
  // Millijoules that the last run used of its GPUs' energy, once it has ended; absent: not measured.
  std::optional<std::uint64_t> energy_used;
  base::WallTime submitted_at{};
  std::optional<base::WallTime> started_at;  // of the current or last run
  std::optional<base::WallTime> ended_at;
  std::string suspension;                    // the suspension record (suspend/record.h); empty: not suspended
  int runs = 0;                              // commands executed
  int restarts = 0;                          // runs after the first, whatever caused them
  int attempts = 0;                          // how many of spec's retries were used
  base::WallTime waiting_since{};            // when the job was submitted, or came back to the queue
  std::optional<base::WallTime> not_before;  // end of a retry's delay
  base::Millis suspended{0};                 // how long the current or last run was off the GPU
  std::optional<base::WallTime> off_since;   // set: the job is off the GPU since this time

  // Bookkeeping between daemon and keeper.
  int incarnation = 1;            // a restart of an ended job starts a new journal
  std::uint64_t journal_seq = 0;  // records of this incarnation's journal that are applied here
  bool stop_wanted = false;       // the order is repeated until the keeper has it in its journal
  bool remove_when_ended = false;
  bool requeue_when_ended = false;  // the job makes room and runs again later
  bool cancel_wanted = false;       // its owner cancelled the job: any end counts as cancelled
  bool gated = false;  // its run does not share, and was started with a gate: it may leave its GPU when idle
  bool updated = false;  // its settings differ from those with which the keeper was started
};

// The command in the conda environment of that name.
std::vector<std::string> InConda(const std::string& name, const std::vector<std::string>& command);
// The job's command as its user wrote it: without what runs it in its conda environment. The span is a part
// of the job.
std::span<const std::string> WordsOfUser(const Job& job);
std::vector<std::string> CommandOfUser(const Job& job);

// Whether calls of the job's programs pass a gate, and its memory can leave by their shims. Clients of MPS
// stay on their GPU.
inline bool HasGate(const Job& job) {
  return job.spec->preload && !job.spec->mps && (job.spec->share || job.gated);
}

inline bool IsEnded(const Job& job) { return IsEnded(job.state); }
inline bool IsWaiting(const Job& job) { return IsWaiting(job.state); }

}  // namespace gpuman::jobs
