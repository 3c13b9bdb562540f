// One call of Decide, for the files with its rules. Internal to the policy.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "guard/policy.h"

namespace gpuman::guard {

struct DecisionContext {
  const Snapshot& snapshot;
  const PolicySettings& settings;
  base::MonoTime now;
  PolicyState& state;
  std::vector<Action>& actions;

  bool IsFresh(const GpuSnapshot& gpu) const {
    return gpu.ok && gpu.taken_at <= now && now - gpu.taken_at <= settings.max_age;
  }
};

// Why a job or process must end.
struct GuardCause {
  std::string kind;    // of the event
  std::string reason;  // the job's reason word
  std::string message;
  std::map<std::string, std::int64_t> data{};
};

// --- endings.cc: SIGTERM, grace, SIGKILL, and SIGKILL again. ---

// Forgets removed jobs, ended runs, and processes that have left every GPU.
void ForgetEnded(DecisionContext& round);
// Continues the endings that were ordered before.
void ContinueEndings(DecisionContext& round);
// Begins to end the job or process; does nothing if that has begun already.
void EndJob(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu, GuardCause cause);
void EndProcess(DecisionContext& round, const gpu::AttributedProcess& process, const GpuSnapshot& gpu,
                GuardCause cause);
// True while `target` is being ended and its memory can be expected back.
bool IsLeaving(const DecisionContext& round, const Target& target);
bool IsListed(const Target& target, const GpuSnapshot& gpu);
Target TargetOf(const gpu::AttributedProcess& process);

// --- suspension.cc: jobs that leave the GPU instead of being ended. ---

// Notes which jobs have left and which have come back.
void FollowSuspensions(DecisionContext& round);
// True while the job is on its way off the GPU, by any order, and its memory can be expected back.
bool IsGoingOff(const DecisionContext& round, const JobSnapshot& job);
// Why a victim is ended although the policy says suspend; nullopt: it is to be suspended.
std::optional<std::string> WhyNotSuspended(const DecisionContext& round, const JobSnapshot& job,
                                           const GpuSnapshot& gpu, const GuardUsage& usage);
// What stays of the job on the GPU while it is suspended, or would stay, as far as that is known.
base::Bytes LeftOn(const JobSnapshot& job, const GpuSnapshot& gpu);
void SuspendJob(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu, GuardCause cause);

// --- limits.cc, unmanaged.cc, pressure.cc: the rules, for one GPU with a fresh sample. ---

void HoldLimits(DecisionContext& round, const GpuSnapshot& gpu);
void HoldUnmanaged(DecisionContext& round, const GpuSnapshot& gpu);
void HoldReserve(DecisionContext& round, const GpuSnapshot& gpu);

// A process that was started outside gpuman and is not protected.
bool IsUnmanaged(const gpu::AttributedProcess& process, const PolicySettings& settings);
// The rule for this user; nullptr: none.
const UnmanagedRule* RuleFor(uid_t uid, const PolicySettings& settings);

// --- How messages are composed. ---

inline std::int64_t Count(base::Bytes bytes) { return static_cast<std::int64_t>(bytes.count); }
std::int64_t Nanoseconds(base::MonoTime time);
std::string Exactly(base::Bytes bytes);  // "512MiB (536870912 bytes)"
std::string NameOf(const JobSnapshot& job);
std::string NameOf(const GpuSnapshot& gpu);
std::string NameOf(const gpu::AttributedProcess& process);

// Usage must fall this far below a limit before passing it is reported again.
constexpr base::Bytes FallenBelow(base::Bytes limit) { return {limit.count - limit.count / 20}; }

}  // namespace gpuman::guard
