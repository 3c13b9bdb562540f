// A job as gpuman keeps it: what was asked for, and how far it has got.
//
// This is the stored record (store.h) and the subject of the state machine (lifecycle.h). Plain values;
// thread-compatible. Wall times are for people; nothing is decided by them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/process.h"
#include "base/units.h"
#include "jobs/environment.h"
#include "jobs/queue_spec.h"
#include "jobs/shared.h"
#include "keeper/spec.h"

namespace gpuman::jobs {

// Queued, held: waits for its start; held until it is released. Finished: status 0, or nobody told. Failed:
// any other end nobody ordered, or none at all. Cancelled: its owner did not want it any more, started or
// not. Timeout: its time limit ended it. Killed: gpuman ended it, by a limit, under pressure or because it
// was asked to.
enum class JobState {
  kQueued,
  kHeld,
  kStarting,
  kRunning,
  kStopping,
  kFinished,
  kFailed,
  kCancelled,
  kTimeout,
  kKilled
};

std::string_view ToString(JobState state);
std::optional<JobState> JobStateFromString(std::string_view word);
constexpr bool IsEnded(JobState state) {
  return state == JobState::kFinished || state == JobState::kFailed || state == JobState::kCancelled ||
         state == JobState::kTimeout || state == JobState::kKilled;
}
// Nothing of it runs, and its turn has not come.
constexpr bool IsWaiting(JobState state) { return state == JobState::kQueued || state == JobState::kHeld; }

// Words of `reason` that decide what an ordered end makes of a job.
inline constexpr std::string_view kCancelledWord = "cancelled";
inline constexpr std::string_view kTimeLimitWord = "time_limit";
// Its user did not want the job any more, which counts as cancelled where runs are counted.
inline constexpr std::string_view kRemovedWord = "removed";

using keeper::RestartMode;

using base::JobId;

// Who a command runs as: the credentials of the caller who submitted it.
struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};
  std::string user{};
  friend bool operator==(const Owner&, const Owner&) = default;
};

struct OwnerHash {
  std::size_t operator()(const Owner& owner) const {
    return std::hash<std::string>()(owner.user) + owner.uid;
  }
};

// RLIMIT_… number to soft and hard value.
using ResourceLimits = std::map<int, std::pair<std::uint64_t, std::uint64_t>>;

struct ResourceLimitsHash {
  std::size_t operator()(const ResourceLimits& limits) const {
    std::size_t hash = limits.size();
    for (const auto& [resource, values] : limits)
      hash = hash * 1'000'003 ^ (static_cast<std::size_t>(resource) + values.first * 31 + values.second);
    return hash;
  }
};

// Which task of which array a job is; the array's id is that of its first task.
struct ArrayTask {
  JobId array;  // 0: of none
  std::int64_t task = 0;
  int limit = 0;  // at most so many tasks run at a time; 0: any number
  friend bool operator==(const ArrayTask&, const ArrayTask&) = default;
};

// A container of Kubernetes. Its cgroup is Job::cgroup.
struct Container {
  std::string name_space, pod, name;  // as Kubernetes has them
  std::string id;                     // the runtime's
  friend bool operator==(const Container&, const Container&) = default;
};

// The last allocation that a program of a job was refused.
struct RefusedAllocation {
  std::string gpu;  // UUID
  base::Bytes asked;
  base::Bytes used;                  // by the job there, then
  std::optional<base::Bytes> limit;  // then
  std::string by;                    // limit sharing device
  base::WallTime at{};
  friend bool operator==(const RefusedAllocation&, const RefusedAllocation&) = default;
};

struct Job {
  // What was asked for.
  JobId id;
  std::string tag;
  Shared<Owner> owner;
  std::vector<std::string> command;
  Shared<std::string> directory;
  Environment environment;
  std::uint32_t umask = 022;
  Shared<ResourceLimits> resource_limits;
  std::optional<base::SizeSpec> memory;  // hard limit on each of its GPUs
  std::optional<base::SizeSpec> soft;
  std::vector<std::string> gpus;  // UUIDs; empty: every GPU, those that appear later too
  int priority = 128;
  RestartMode restart = RestartMode::kNo;
  std::optional<base::Millis> grace;
  bool preload = true;
  bool share = false;          // its memory may leave the GPU and come back, while it runs
  double weight = 1;           // of its turns on a shared GPU, against the others' there
  bool oversubscribe = false;  // managed memory, of which one process may have more than its GPU
  std::string device_profile;  // its GPUs' settings while it has them to itself; empty: none
  bool mps = false;            // its programs are clients of its GPU's MPS server
  double mps_threads = 0;      // percent of the GPU's threads for each of them; 0: as the server has it

  // Of a job of the queue, which is started when the queue says so, on the GPUs that it says.
  bool queued = false;
  // Somebody else started it: it is what `keeper`, a process of theirs, starts. Its environment holds the key
  // of its processes alone.
  bool attached = false;
  // It is what runs in this container: attached, without a process that stands for a keeper (`keeper` is
  // {0, 0}, which no process is).
  std::shared_ptr<const Container> container;  // copies share it; null: none, as of most jobs
  Shared<QueueSpec> queue_spec;
  ArrayTask array;
  JobId redo_of;  // the job that this one does again; 0: none

  // How far it got.
  JobState state = JobState::kStarting;
  std::optional<std::string> reason;
  std::optional<std::string> reason_detail;
  std::optional<base::ProcessId> process;  // main process of the current or last run
  std::optional<base::ProcessId> keeper;
  std::string cgroup;   // the job's own; empty: none
  std::string boot_id;  // of the keeper: process ids mean something only within one boot
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<JobState> verdict;  // what the last end makes of the job, unless it runs again
  std::optional<base::Bytes> peak;
  std::vector<std::string> notes;            // of the current or last run: what it could not be given
  std::optional<RefusedAllocation> refusal;  // of the last run, once it has ended
  // What its GPUs had used since the driver was loaded, in millijoules by UUID, when it came on them; empty:
  // it is on none. What the run used before that; absent: it is not measured.
  std::map<std::string, std::uint64_t> energy_before;
  std::optional<std::uint64_t> energy_used;
  base::WallTime submitted_at{};
  std::optional<base::WallTime> started_at;  // of the current or last run
  std::optional<base::WallTime> ended_at;
  std::string suspension;  // how far it is off the GPU, as suspend/record.h writes it; empty: it is not
  int runs = 0;            // commands executed
  int restarts = 0;        // runs after the first, whoever asked for them
  int attempts = 0;        // of QueueSpec::retries that were used
  base::WallTime waiting_since{};            // submitted, or back in the queue
  std::optional<base::WallTime> not_before;  // end of a retry's delay
  base::Millis suspended{0};                 // how long its current or last run was off the GPU
  std::optional<base::WallTime> off_since;   // it is off the GPU, in addition

  // Bookkeeping between daemon and keeper.
  int incarnation = 1;            // a restart of an ended job starts a new journal
  std::uint64_t journal_seq = 0;  // records of this incarnation's journal that this record reflects
  bool stop_wanted =
      false;  // asked for by somebody; until the keeper has it in its journal it is asked again
  bool remove_when_ended = false;
  bool requeue_when_ended = false;  // it makes room, and runs again later
  bool cancel_wanted = false;       // by its owner: what its end makes of it, whatever ends it
  bool updated = false;             // settings differ from those the keeper was started with
};

inline bool IsEnded(const Job& job) { return IsEnded(job.state); }
inline bool IsWaiting(const Job& job) { return IsWaiting(job.state); }

}  // namespace gpuman::jobs
