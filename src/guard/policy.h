// What the guard does about memory: Decide(snapshot, settings, now, state) -> actions. Pure.
//
// Rules, in order (policy_test.cc has them as a table):
//  - Hard limit: a job whose processes on one GPU are known to hold more than its limit there is ended:
//    SIGTERM, the grace, SIGKILL to the whole tree; at once SIGKILL when the grace is 0. Reason memory_limit.
//    What has been ordered is carried through: a job that gives memory back during its grace is ended still.
//    Unless all its processes there count their memory themselves (the shim, `counted`) and so take no more:
//    then it is told once (over_limit), and let be while it is over by no more than `overhead`, which is what
//    the driver takes for contexts, code and graphs; and for `lowered_patience` where its own count is over
//    the limit, because that was lowered.
//  - Soft limit: told once when passed, again only after usage fell below 95 % of it.
//  - Reserve: while free memory of a GPU is below its reserve, one victim at a time is ended, reason
//    device_pressure: over one of its limits first, then lowest priority, then who has no hard limit there,
//    then newest. The next is chosen when the last has left the GPU and its memory had `settle` to come back,
//    or after `victim_patience`. Any job on the GPU may be it. A process that gpuman does not manage only
//    when `unmanaged_victims` is set, before all jobs, newest first; protected ones never.
//    With `on_pressure` suspend a job that is chosen is not ended but suspended (suspension.cc), and ended
//    when that was refused, failed or took longer than `suspend_patience`, and where it could not come back:
//    it would not fit beside the reserve, or the driver does not tell what it holds. Who is off the GPU, or
//    on the way there, is no victim. It comes back by itself when there has been room for it for
//    `return_after` without a break; that doubles each time it has to leave again within `calm` of its
//    return, up to `return_after_most`.
//  - Unmanaged: per user and GPU, a warning or a ceiling for the sum of what was started outside gpuman. Over
//    the ceiling the user's newest process there is ended, one at a time.
//  - Unknown memory (nullopt) is neither zero nor a guess: sums are lower bounds, so a limit acts on what is
//    certain; a job with a limit whose use is partly unknown is told of once (usage_unknown).
//  - Failed samples and those older than `max_age`, or taken before the run of the job began, decide
//    nothing. Only the SIGKILL that follows a SIGTERM needs no sample.
//
// Protected: processes named in `protected_names` (display servers) that do graphics or run as root, and
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
#include "gpu/attribution.h"
#include "guard/event.h"

namespace gpuman::guard {

enum class UnmanagedMode { kWarn, kEnforce };
enum class OnPressure { kEnd, kSuspend };

struct UnmanagedRule {
  std::optional<uid_t> uid;  // nullopt: every user without a rule of their own, except root
  base::SizeSpec ceiling;    // of the user's unmanaged processes on one GPU, together
  UnmanagedMode mode = UnmanagedMode::kWarn;
};

std::set<std::string> DefaultProtectedNames();

struct PolicySettings {
  base::Millis grace{0};  // for jobs that name none, and for unmanaged processes
  std::vector<UnmanagedRule> unmanaged{};
  bool unmanaged_victims = false;
  std::set<std::string> protected_names = DefaultProtectedNames();  // comm
  base::Millis max_age{3000};
  base::Bytes overhead = base::MiB(256);  // at most a quarter of the limit
  base::Millis lowered_patience{10'000};
  base::Millis settle{250};
  base::Millis share_patience{10'000};  // with jobs that share the GPU: they are moved out of the way
  base::Millis victim_patience{10'000};
  OnPressure on_pressure = OnPressure::kEnd;
  base::Millis suspend_patience{60'000};  // for a victim to be off the GPU
  base::Millis suspend_again{300'000};    // one that could not be suspended is not asked to before
  base::Millis return_after{10'000};
  base::Millis return_after_most{600'000};
  base::Millis calm{300'000};
  base::Millis kill_again{1000};  // SIGKILL is repeated this often while the job still shows on a GPU
};

struct GpuSnapshot {
  std::string uuid;
  std::string number = "0";   // for messages
  bool ok = false;            // the last sampling succeeded
  base::MonoTime taken_at{};  // of the last sampling
  base::Bytes total, used, free;
  base::Bytes reserve;  // 0: none
  std::vector<gpu::OwnedProcess> processes;
};

struct JobLimit {
  std::optional<base::Bytes> soft;
  std::optional<base::Bytes> hard;
  // What the job's processes count there themselves; nullopt: not all of them do.
  std::optional<base::Bytes> counted;
  friend bool operator==(const JobLimit&, const JobLimit&) = default;
};

// A job between its GPU and the host's memory: kOff is suspended.
enum class Residency { kOnGpu, kLeaving, kOff, kReturning };

// Why a job was not suspended that was to be.
struct Refusal {
  base::MonoTime at{};
  std::string why;
};

struct JobSnapshot {
  JobId id;
  std::string tag;                         // for messages
  std::uint64_t run = 1;                   // grows with each start of its command: a new run is a new chance
  base::MonoTime started_at{};             // of the run
  int priority = 128;                      // higher is more important
  std::map<std::string, JobLimit> limits;  // by GPU; percentages resolved
  std::optional<base::Millis> grace;
  // Somebody else is ending it: no victim any more, but its memory is waited for. Its hard limit holds still.
  std::optional<base::MonoTime> ending_since;
  bool shares = false;  // its memory is moved off the GPU where others need it
  Residency residency = Residency::kOnGpu;
  base::MonoTime residency_since{};
  std::optional<Refusal> refusal{};  // the last
};

struct Snapshot {
  std::vector<GpuSnapshot> gpus;
  std::vector<JobSnapshot> jobs;
};

enum class ActionKind { kTell, kTerminate, kKill, kSuspend };

// kTell: the event only. kTerminate, kKill: a signal to `job`, the whole tree, or to `process`; exactly one
// of them is set. `first`: nothing was sent to this target before, so its reason has to be announced.
// kSuspend: `job` is to leave its GPU, for the event's reason and message, and to come back by itself.
struct Action {
  ActionKind what = ActionKind::kTell;
  std::optional<JobId> job{};
  std::optional<base::ProcessId> process{};
  bool first = false;
  bool note_in_log = false;  // the message belongs into the job's log too
  Event event;
  base::Millis return_after{0};  // kSuspend: for how long there has to be room before it comes back
};

// --- State: what Decide remembers between calls. Start with an empty one; nothing else writes to it. ---

enum class EndingStage { kNone, kTerminating, kKilled };

struct Ending {
  EndingStage stage = EndingStage::kNone;
  std::string gpu;  // where the cause lay
  std::string reason;
  std::string message;
  base::MonoTime kill_at{};       // kTerminating: when the grace ends
  base::MonoTime killed_at{};     // kKilled: the first SIGKILL
  base::MonoTime signalled_at{};  // the last signal
};

struct JobState {
  std::uint64_t run = 0;
  Ending ending;
  std::set<std::string> over_soft;  // GPUs
  std::set<std::string> unknown_told;
  std::map<std::string, base::MonoTime> over_hard_since{};  // GPUs on which it is let be
  std::optional<base::MonoTime> asked_to_leave{};           // and has not left since
  unsigned departures = 0;                                  // for pressure, with no calm in between
  bool away = false;
  base::MonoTime back_at{};
};

// A job, or else a process that is none's.
struct Target {
  std::optional<JobId> job;
  base::ProcessId process;
  friend auto operator<=>(const Target&, const Target&) = default;
};

struct GpuPressure {
  std::optional<Target> victim;               // in flight: being ended, for whatever reason
  std::optional<base::MonoTime> victim_gone;  // the first sample without it
  bool unrelieved_told = false;
  std::optional<base::MonoTime> since;  // free memory is below the reserve
};

struct State {
  std::map<JobId, JobState> jobs;
  std::map<base::ProcessId, Ending> processes;  // unmanaged ones being ended
  std::map<std::string, GpuPressure> pressure;  // by GPU
  std::set<std::pair<std::string, uid_t>> unmanaged_told;
};

std::vector<Action> Decide(const Snapshot& snapshot, const PolicySettings& settings, base::MonoTime now,
                           State& state);

// When Decide has something to do even if no sample comes: the end of the next grace.
std::optional<base::MonoTime> NextDeadline(const State& state);

// --- Parts of the rules that others need too. ---

struct Usage {
  base::Bytes known;  // sum of what the driver tells
  unsigned processes = 0;
  unsigned unknown = 0;  // processes whose memory it does not tell
};
Usage UsageOf(JobId job, const std::vector<gpu::OwnedProcess>& processes);  // on one GPU

std::map<JobId, Usage> UsageByJob(const std::vector<gpu::OwnedProcess>& processes);

bool IsProtected(const gpu::OwnedProcess& process, const PolicySettings& settings);

}  // namespace gpuman::guard
