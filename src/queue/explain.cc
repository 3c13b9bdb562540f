#include "queue/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpuman::queue {
namespace {

std::string In(WallTime time, WallTime now) {
  return fmt::format("{}, in {}", base::FormatIso8601(time),
                     base::FormatDuration(std::max(Millis(0), time - now)));
}

std::string Count(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// The part of the quota that prevents `more`; empty: no part prevents it.
std::string QuotaText(std::string_view kind, const QueueAccount& account, const CurrentAccountUsage& held,
                      const CurrentAccountUsage& more) {
  if (Allows(account, held, more)) return {};
  const Quota& quota = account.quota;
  const std::string who = fmt::format("{} {}", kind, account.name);
  if (quota.running && held.running + more.running > *quota.running)
    return fmt::format("{} runs {}; the quota allows {}", who,
                       Count(static_cast<std::size_t>(held.running), "job"), *quota.running);
  if (quota.gpus && held.gpus + more.gpus > *quota.gpus)
    return fmt::format("{} has {} and this job wants {}; the quota allows {}", who,
                       Count(static_cast<std::size_t>(held.gpus), "GPU"), more.gpus, *quota.gpus);
  if (std::isinf(more.gpu_millis))
    return fmt::format("{} has a quota of {} GPU-hours, and this job has no time limit to count", who,
                       base::FormatHours(*quota.gpu_hours));
  return fmt::format(
      "{} used {} GPU-hours within {}, what runs may use {} more and this job {}; the quota allows {}", who,
      base::FormatUsedHours(account.window_gpu_seconds / 3600), base::FormatDuration(quota.window),
      base::FormatUsedHours(held.GpuHours()), base::FormatUsedHours(more.GpuHours()),
      base::FormatHours(*quota.gpu_hours));
}

std::string ListOf(const Dependencies& depends, const std::function<std::string(JobId)>& name_of) {
  constexpr std::size_t kMax = 4;
  const auto wanted = [](DependencyKind kind) {
    return kind == DependencyKind::kAfterOk      ? "finish"
           : kind == DependencyKind::kAfterNotOk ? "fail"
           : kind == DependencyKind::kAfterAny   ? "end"
                                                 : "start";
  };
  const std::string_view word = depends.mode == DependencyMode::kAny ? " or " : " and ";
  const auto& list = depends.list;
  const std::size_t shown = list.size() > kMax ? kMax - 1 : list.size();
  std::string text;
  for (std::size_t i = 0; i < shown; ++i)
    text += fmt::format("{}{} to {}", i == 0 ? "" : word, name_of(list[i].job), wanted(list[i].kind));
  if (shown < list.size()) text += fmt::format("{}{} more", word, list.size() - shown);
  return text;
}

}  // namespace

std::string Describe(const Need& need) {
  if (need.gpus == 0) return "no GPU";
  std::string text = Count(static_cast<std::size_t>(need.gpus), "GPU");
  if (need.exact) text += " that it names";
  if (need.share)
    text = fmt::format("{}{}, shared", base::FormatBytes(need.memory),
                       need.gpus == 1 ? " of a GPU" : " on each of " + text);
  else if (need.free_memory.count > 0)
    text += fmt::format(" with {} free", base::FormatBytes(need.free_memory));
  return text;
}

std::string NameById(JobId job) { return fmt::format("job {}", job.value); }

std::string Explain(WaitReason reason, const Dependencies& depends,
                    const std::function<std::string(JobId)>& name_of) {
  const std::string list = ListOf(depends, name_of);
  return reason == WaitReason::kDependencyNever
             ? fmt::format("waits for {}, which can no longer happen", list)
             : "waits for " + list;
}

Explainer::Explainer(const Snapshot& snapshot, const Plan& plan, WallTime now, const Dependents& dependents)
    : snapshot_(snapshot),
      plan_(plan),
      dependents_(dependents),
      now_(now),
      room_(snapshot, now),
      quota_use_(snapshot) {
  for (const StartDecision& start : plan.starts) {
    const WaitingJobInput& job = snapshot.waiting[start.waiting];
    PlacementRequest request{.need = snapshot.needs[job.need], .user = job.user, .job = job.id};
    room_.Take(request, start.gpus);
    quota_use_.Start(job);
  }
  host_ = room_.HostAt(now);
}

// The possible GPUs for which `holds` is true, with their numbers: "GPU 2, 3 drained".
std::string Explainer::List(const Need& need, bool (*holds)(const Gpu&), std::string_view what) const {
  std::string numbers;
  for (std::size_t i = 0; i < snapshot_.gpus.size(); ++i)
    if (need.possible.test(i) && holds(snapshot_.gpus[i]))
      numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", NumberOf(snapshot_.gpus[i]));
  return numbers.empty() ? "" : fmt::format("; {}: GPU {}", what, numbers);
}

// The GPUs that stay out of use even when all jobs have ended.
std::string Explainer::OutOfUse(const Need& need) const {
  return List(
             need, [](const Gpu& gpu) { return gpu.drained && !gpu.split && !gpu.unhealthy; }, "drained") +
         List(
             need, [](const Gpu& gpu) { return gpu.unhealthy && !gpu.lost; }, "unhealthy") +
         List(
             need, [](const Gpu& gpu) { return gpu.split; }, "split into instances (MIG)") +
         List(
             need, [](const Gpu& gpu) { return gpu.restricted; }, "restricted") +
         List(
             need, [](const Gpu& gpu) { return gpu.lost; }, "lost");
}

// What stays of suspended jobs on the possible GPUs, where the job would fit without it: "; it asks for 60GiB
// on each, and 30GiB of suspended job 7 stay on GPU 0".
std::string Explainer::WhatStays(const WaitingJobInput& job) const {
  const Need& need = snapshot_.needs[job.need];
  const base::Bytes wanted = std::max(need.memory, need.free_memory);
  std::string text;
  for (std::size_t i = 0; i < snapshot_.gpus.size(); ++i) {
    const GpuRoom& slot = room_.slots()[i];
    if (!need.possible.test(i) || slot.left.empty()) continue;
    const bool too_little = (need.share || need.free_memory.count > 0) && !slot.exclusive &&
                            wanted > slot.free && wanted <= slot.free + room_.LeftBeside(i, job.id);
    if (room_.HasRoomBesideLeft(i, need, job.id) && !too_little) continue;
    for (const ResidualMemory& left : slot.left)
      text += fmt::format(", and {} of suspended job {} stay on GPU {}", base::FormatBytes(left.bytes),
                          left.job.value, NumberOf(snapshot_.gpus[i]));
  }
  return text.empty() ? text : fmt::format("; it asks for {} on each{}", base::FormatBytes(wanted), text);
}

std::string Explainer::Resources(const WaitingJobInput& job) const {
  const Need& need = snapshot_.needs[job.need];
  const PlacementRequest request{.need = need, .user = job.user, .job = job.id};
  if (need.host_memory > host_.memory.value_or(need.host_memory))
    return fmt::format("wants {} of the machine's memory; {} is free", base::FormatBytes(need.host_memory),
                       base::FormatBytes(*host_.memory));
  if (need.cpus > host_.cpus.value_or(need.cpus))
    return fmt::format("wants {}; {} are free", Count(static_cast<std::size_t>(need.cpus), "processor"),
                       *host_.cpus);
  // Mostly these are instances that a user has removed. If the same instances are made again, they have the
  // same names.
  const auto wanted = static_cast<std::size_t>(need.gpus);
  if (need.exact && need.possible.count() < wanted)
    return fmt::format("wants {}; {} of them {} not here now", Describe(need), wanted - need.possible.count(),
                       wanted - need.possible.count() == 1 ? "is" : "are");
  // So it is for the first moments of a daemon, and where the driver does not answer.
  if (snapshot_.gpus.empty())
    return fmt::format("wants {}; no GPU of this machine is known now", Describe(need));
  const GpuSet fitting = room_.Fitting(request, {.claims = false, .reservations = false});
  return fmt::format("wants {}; {} of {} can be used now{}", Describe(need), fitting.count(),
                     Count(need.possible.count(), "GPU"), WhatStays(job));
}

std::string Explainer::Quotas(const WaitingJobInput& job) const {
  const CurrentAccountUsage more = UsageOf(snapshot_.needs[job.need], Millis(0), false);
  std::string text = QuotaText("user", snapshot_.users[job.user], quota_use_.user(job.user), more);
  if (text.empty() && job.project != kNone)
    text = QuotaText("project", snapshot_.projects[job.project], quota_use_.project(job.project), more);
  return text.empty() ? "a quota of its user or project was used up" : text;
}

std::string Explainer::Of(Index waiting) const {
  const WaitingJobInput& job = snapshot_.waiting[waiting];
  const Verdict& verdict = plan_.verdicts[waiting];
  const Need& need = snapshot_.needs[job.need];
  const std::string front =
      verdict.position > 1 ? fmt::format("; {} in front", Count(verdict.position - 1, "job")) : "";
  switch (verdict.reason) {
    case WaitReason::kStarts:
      return {};
    case WaitReason::kHeld:
      return fmt::format("held until somebody releases it (gpuman job release {})", job.id.value);
    case WaitReason::kPaused:
      return "the queue is paused";
    case WaitReason::kDependency:
    case WaitReason::kDependencyNever: {
      const auto* const depends = dependents_.DependenciesOf(job.id);
      return Explain(verdict.reason, depends ? *depends : Dependencies{});
    }
    case WaitReason::kBeginTime:
      return fmt::format("begins at {}", In(job.begin, now_));
    case WaitReason::kRetryDelay:
      return fmt::format("runs again at {}", In(job.begin, now_));
    case WaitReason::kArrayLimit:
      return fmt::format("{} of array {} run; at most {} may",
                         Count(static_cast<std::size_t>(quota_use_.array(job.array)), "task"),
                         snapshot_.arrays[job.array].name, snapshot_.arrays[job.array].limit);
    case WaitReason::kGroupLimit:
      return fmt::format("{} of the group {} run; at most {} may",
                         Count(static_cast<std::size_t>(quota_use_.group(job.group)), "job"),
                         snapshot_.groups[job.group].name, snapshot_.groups[job.group].limit);
    case WaitReason::kQuota:
      return Quotas(job);
    case WaitReason::kReservation:
      return fmt::format("wants {}; the suitable ones are reserved for others while it may run{}",
                         Describe(need), front);
    case WaitReason::kUnmanaged:
      return Resources(job) +
             List(
                 need, [](const Gpu& gpu) { return gpu.unmanaged; }, "in use by others") +
             front;
    case WaitReason::kUnavailable:
      return Resources(job) + OutOfUse(need);
    case WaitReason::kResources:
      return Resources(job) + OutOfUse(need) + front;
    case WaitReason::kPriority:
      return fmt::format("wants {}; what is free is kept for a job in front, which this one would hold up{}",
                         Describe(need), front);
    case WaitReason::kMakingRoom:
      return fmt::format("others leave {} for it",
                         need.gpus == 1 ? "a GPU" : Count(static_cast<std::size_t>(need.gpus), "GPU"));
  }
  return {};
}

// If enough GPUs are held by nobody, the job waits for something else, and nobody is named.
std::vector<GpuHolder> Explainer::HoldersFor(const Need& need) const {
  std::vector<GpuHolder> holders;
  int unheld = 0;
  for (std::size_t place = 0; place < snapshot_.gpus.size(); ++place) {
    const Gpu& gpu = snapshot_.gpus[place];
    if (!need.possible.test(place) || gpu.lost || gpu.drained || gpu.restricted) continue;
    const std::size_t before = holders.size();
    std::vector<JobId> jobs;
    for (const auto& row : snapshot_.running)
      if (row.phase != RunningPhase::kSuspended && row.gpus.test(place)) jobs.push_back(row.id);
    std::sort(jobs.begin(), jobs.end());
    for (const JobId job : jobs) holders.push_back({gpu.uuid, job, {}});
    if (gpu.unmanaged) holders.push_back({gpu.uuid, {}, gpu.holder});
    if (holders.size() == before) ++unheld;
  }
  return unheld < need.gpus ? holders : std::vector<GpuHolder>{};
}

Blockers Explainer::BlockersOf(Index waiting) const {
  const Verdict& verdict = plan_.verdicts[waiting];
  Blockers in_the_way;
  switch (verdict.reason) {
    case WaitReason::kPriority:
      for (const Index row : plan_.order) {
        const auto position = plan_.verdicts[row].position;
        if (position > 0 && position < verdict.position)
          in_the_way.in_front.push_back(snapshot_.waiting[row].id);
      }
      [[fallthrough]];
    case WaitReason::kResources:
    case WaitReason::kMakingRoom:
    case WaitReason::kUnmanaged:
      in_the_way.holders = HoldersFor(snapshot_.needs[snapshot_.waiting[waiting].need]);
      break;
    default:
      break;
  }
  return in_the_way;
}

}  // namespace gpuman::queue
