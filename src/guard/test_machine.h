// For the guard's tests: describes a machine in a few lines, and the guard's actions in words.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "guard/policy.h"

namespace gpuman::guard {

inline base::MonoTime At(std::int64_t milliseconds) {
  return base::MonoTime(std::chrono::milliseconds(1'000'000 + milliseconds));
}

inline gpu::AttributedProcess Process(pid_t pid, std::optional<std::int64_t> job,
                                      std::optional<std::uint64_t> mebibytes, uid_t uid = 1000) {
  gpu::AttributedProcess process;
  process.id = {pid, static_cast<std::uint64_t>(pid) * 10};
  if (job) process.job = JobId{*job};
  process.uid = uid;
  process.name = "python";
  if (mebibytes) process.memory = base::MiB(*mebibytes);
  return process;
}

// A GPU of 10000 MiB.
inline GpuSnapshot Gpu(std::int64_t at, std::vector<gpu::AttributedProcess> processes, unsigned index = 0) {
  GpuSnapshot gpu;
  gpu.uuid = fmt::format("GPU-{}", index);
  gpu.number = std::to_string(index);
  gpu.ok = true;
  gpu.taken_at = At(at);
  gpu.total = base::MiB(10'000);
  gpu.processes = std::move(processes);
  for (const auto& process : gpu.processes) gpu.used += process.memory.value_or(base::Bytes{});
  gpu.free = gpu.total - gpu.used;
  return gpu;
}

// A job with its limits in MiB on GPU 0 and GPU 1; 0: no limit.
inline JobSnapshot Job(std::int64_t id, std::uint64_t hard = 0, std::uint64_t soft = 0) {
  JobSnapshot job;
  job.id = {id};
  job.tag = fmt::format("t{}", id);
  job.started_at = At(-1'000'000 + id);
  JobLimit limit;
  if (hard > 0) limit.hard = base::MiB(hard);
  if (soft > 0) limit.soft = base::MiB(soft);
  if (hard > 0 || soft > 0) job.limits = {{"GPU-0", limit}, {"GPU-1", limit}};
  return job;
}

// "suspend job 7 for 10s" (there must be room for 10 s before it comes back), "kill job 7 hard_limit",
// "terminate process 12 unmanaged_limit", "tell soft_limit job 7".
inline std::string Word(const Action& action) {
  std::string target;
  if (action.job) target = fmt::format(" job {}", action.job->value);
  if (action.process) target = fmt::format(" process {}", action.process->pid);
  if (action.what == ActionKind::kTell) {
    if (action.event.job) target = fmt::format(" job {}", action.event.job->value);
    return "tell " + action.event.kind + target;
  }
  if (action.what == ActionKind::kSuspend)
    return fmt::format("suspend{} for {}", target, base::FormatDuration(action.return_after));
  const std::string verb = action.what == ActionKind::kKill ? "kill" : "terminate";
  return verb + target + (action.event.kind.empty() ? " again" : " " + action.event.kind);
}

inline std::vector<std::string> Words(const std::vector<Action>& actions) {
  std::vector<std::string> words;
  words.reserve(actions.size());
  for (const auto& action : actions) words.push_back(Word(action));
  return words;
}

}  // namespace gpuman::guard
