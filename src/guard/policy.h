// The guard's decisions about memory: Decide(snapshot, settings, now, state) -> actions. Pure.
//
// Rules, in order (policy_test.cc has them as a table):
//  - Hard limit: a job is ended if its processes on one GPU are known to hold more than its limit there:
//    SIGTERM, the grace, SIGKILL to the whole tree; SIGKILL at once if the grace is 0. Reason memory_limit.
//    The guard carries out what it has ordered: a job that gives memory back during its grace still ends.
//    Exception: all processes of the job there count their memory themselves (the shim, `counted`), so they
//    take no more. Then the guard reports that once (over_limit). It lets the job run while the job is over
//    by no more than `overhead`, which the driver takes for contexts, code and graphs; and for
//    `lowered_patience` if the job's own count is over the limit, because the limit was lowered.
//  - Soft limit: reported once when passed, and again only after usage fell below 95 % of it.
//  - Reserve: while free memory of a GPU is below its reserve, the guard ends one victim at a time, reason
//    device_pressure. Jobs over one of their limits come first, then the lowest priority, then jobs without
//    a hard limit there, then the newest. The guard chooses the next victim when the last one has left the
//    GPU and its memory had `settle` to come back, or after `victim_patience`. Idle jobs that can be suspended
//    go before all others, and are suspended (reason idle), whatever `on_pressure` says. Any job on the GPU
//    may be a victim. A process that gpuman does not manage may be one only if `unmanaged_victims` is set:
//    then these come before all jobs, the newest first. Protected processes never are victims.
//    With `on_pressure` suspend the guard suspends the chosen job instead (suspension.cc). It ends the job if
//    the suspension was refused, failed or took longer than `suspend_patience`, or if the job could not come
//    back: it would not fit beside the reserve, or the driver does not report its memory. Where too much of
//    the job would stay on the GPU, a job that comes next in that order and is no more important is suspended
//    in its place; else the job is ended, unless several suspensions help. A job that is off the GPU, or on
//    the way off, is no victim. It comes back by itself when there has been room for it for
//    `return_after` without a break. That time doubles each time the job has to leave again within `calm` of
//    its return, up to `return_after_most`.
//  - Unmanaged: per user and GPU, a warning or a ceiling for the sum of the processes started outside gpuman.
//    Over the ceiling the guard ends the user's newest process there, one at a time.
//  - Unknown memory (nullopt) is neither zero nor a guess. Sums are lower bounds, so a limit acts only on
//    known memory. A job with a limit whose use is partly unknown is reported once (usage_unknown).
//  - A sample decides nothing if it failed, is older than `max_age`, or was taken before the job's run began.
//    Only the SIGKILL that follows a SIGTERM needs no sample.
//
// Protected are processes named in `protected_names` (display servers) that do graphics or run as root, and
// gpuman's own.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/process.h"
#include "base/units.h"
#include "gpu/process_attributor.h"
#include "guard/event.h"

namespace gpuman::guard {

enum class UnmanagedMode { kWarn, kEnforce };
enum class OnPressure { kEnd, kSuspend };

struct UnmanagedRule {
  std::optional<uid_t> uid;  // nullopt: every user without an own rule, except root
  base::SizeSpec ceiling;    // for the sum of the user's unmanaged processes on one GPU
  UnmanagedMode mode = UnmanagedMode::kWarn;
};

std::set<std::string> DefaultProtectedNames();

struct PolicySettings {
  base::Millis grace{0};  // for jobs without a grace of their own, and for unmanaged processes
  std::vector<UnmanagedRule> unmanaged{};
  bool unmanaged_victims = false;
  std::set<std::string> protected_names = DefaultProtectedNames();  // comm
  base::Millis max_age{3000};
  base::Bytes overhead = base::MiB(256);  // at most a quarter of the limit
  base::Millis lowered_patience{10'000};
  base::Millis settle{250};
  base::Millis share_patience{10'000};  // jobs that share the GPU are moved off it meanwhile
  base::Millis victim_patience{10'000};
  OnPressure on_pressure = OnPressure::kEnd;
  base::Millis suspend_patience{60'000};  // the time for a victim to leave the GPU
  base::Millis suspend_again{300'000};    // the time before a job that was not suspended is asked again
  base::Millis return_after{10'000};
  base::Millis return_after_most{600'000};
  base::Millis calm{300'000};
  base::Millis kill_again{1000};  // until the next SIGKILL while it is still listed on a GPU
};

struct GpuSnapshot {
  std::string uuid;
  std::string number = "0";   // for messages
  bool ok = false;            // the last sampling succeeded
  base::MonoTime taken_at{};  // of the last sampling
  base::Bytes total, used, free;
  base::Bytes reserve;  // 0: none
  std::vector<gpu::AttributedProcess> processes;
};

struct JobLimit {
  std::optional<base::Bytes> soft;
  std::optional<base::Bytes> hard;
  // The sum that the job's processes count there themselves; nullopt: not all of them count.
  std::optional<base::Bytes> counted;
  friend bool operator==(const JobLimit&, const JobLimit&) = default;
};

// Where the job's memory is, between its GPU and host memory. kOff: the job is suspended.
enum class JobResidency { kOnGpu, kLeaving, kOff, kRestoring };

// Why a job was not suspended although the guard asked for it.
struct SuspensionRefusal {
  base::MonoTime at{};
  std::string why;
};

struct JobSnapshot {
  JobId id;
  std::string tag;              // for messages
  std::uint64_t run = 1;        // increases with each start of the command: a new run gets a new chance
  base::MonoTime started_at{};  // of the run
  int priority = 128;           // higher is more important
  std::map<std::string, JobLimit> limits;  // by GPU; percentages resolved
  std::optional<base::Millis> grace;
  // Another part than the guard is ending the job: the job is no victim any more, but its memory is awaited.
  // Its hard limit still holds.
  std::optional<base::MonoTime> ending_since;
  bool shares = false;  // its memory is moved off the GPU if others need the room
  bool idle = false;    // it makes no call, and has agreed to leave until its next one
  JobResidency residency = JobResidency::kOnGpu;
  base::MonoTime residency_since{};
  std::optional<SuspensionRefusal> refusal{};  // the last
  // Says for each GPU how much memory stays there while the job is suspended; for a running job, how much
  // would stay, as far as that is known.
  std::map<std::string, base::Bytes> left{};
};

struct Snapshot {
  std::vector<GpuSnapshot> gpus;
  std::vector<JobSnapshot> jobs;
};

enum class ActionKind { kTell, kTerminate, kKill, kSuspend };

// kTell: only the event. kTerminate, kKill: a signal to `job` (the whole tree) or to `process`; exactly one
// of them is set. `first`: no signal was sent to this target before, so its reason must be announced.
// kSuspend: `job` must leave its GPU, for the event's reason and message, and comes back by itself.
struct Action {
  ActionKind what = ActionKind::kTell;
  std::optional<JobId> job{};
  std::optional<base::ProcessId> process{};
  bool first = false;
  bool note_in_log = false;  // the message also belongs in the job's log
  Event event;
  base::Millis return_after{0};  // kSuspend: there must be room for this long before the job comes back
};

// --- What Decide remembers between calls. Start with an empty one; nothing else writes to it. ---

enum class EndingStage { kNone, kTerminating, kKilled };

struct Ending {
  EndingStage stage = EndingStage::kNone;
  std::string gpu;  // where the cause was
  std::string reason;
  std::string message;
  base::MonoTime kill_at{};       // kTerminating: when the grace ends
  base::MonoTime killed_at{};     // kKilled: the first SIGKILL
  base::MonoTime signalled_at{};  // the last signal
};

struct JobEnforcementState {
  std::uint64_t run = 0;
  Ending ending;
  std::set<std::string> over_soft;  // GPUs
  std::set<std::string> unknown_reported;
  std::map<std::string, base::MonoTime> over_hard_since{};  // GPUs on which it may stay over its limit
  std::optional<base::MonoTime> asked_to_leave{};           // and the job has not left since
  unsigned departures = 0;                                  // for pressure, without `calm` in between
  bool away = false;
  base::MonoTime back_at{};
};

// A job, or a process that belongs to no job.
struct Target {
  std::optional<JobId> job;
  base::ProcessId process;
  friend auto operator<=>(const Target&, const Target&) = default;
};

struct GpuPressureState {
  std::optional<Target> victim;               // is being ended, for any reason, or suspended
  std::optional<base::MonoTime> victim_gone;  // the first sample without it
  bool unrelieved_reported = false;
  std::optional<base::MonoTime> since;  // since when free memory is below the reserve
};

struct PolicyState {
  std::map<JobId, JobEnforcementState> jobs;
  std::map<base::ProcessId, Ending> processes;       // unmanaged processes that are being ended
  std::map<std::string, GpuPressureState> pressure;  // by GPU
  std::set<std::pair<std::string, uid_t>> unmanaged_reported;
};

std::vector<Action> Decide(const Snapshot& snapshot, const PolicySettings& settings, base::MonoTime now,
                           PolicyState& state);

// When Decide must be called even without a sample: the end of the next grace.
std::optional<base::MonoTime> NextDeadline(const PolicyState& state);

// --- Parts of the rules that other files need too. ---

struct GuardUsage {
  base::Bytes known;  // sum of the driver's figures
  unsigned processes = 0;
  unsigned unknown = 0;  // processes whose memory the driver does not report
};
GuardUsage UsageOf(JobId job, const std::vector<gpu::AttributedProcess>& processes);  // on one GPU

std::map<JobId, GuardUsage> UsageByJob(const std::vector<gpu::AttributedProcess>& processes);

bool IsProtected(const gpu::AttributedProcess& process, const PolicySettings& settings);

}  // namespace gpuman::guard
