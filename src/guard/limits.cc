// Holds the soft and hard limits of jobs on one GPU.
#include <fmt/format.h>

#include <algorithm>

#include "guard/decision_context.h"

namespace gpuman::guard {
namespace {

void Tell(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu, std::string_view kind,
          std::string message, std::map<std::string, std::int64_t> data) {
  Action action;
  action.note_in_log = true;
  action.event.kind = kind;
  action.event.at = round.now;
  action.event.job = job.id;
  action.event.gpu = gpu.uuid;
  action.event.message = std::move(message);
  action.event.data = std::move(data);
  action.event.data["sampled_ns"] = Nanoseconds(gpu.taken_at);
  round.actions.push_back(std::move(action));
}

// True if the job is over its limit but its processes take no more memory, so ending it would prevent
// nothing.
bool IsLetBe(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu, base::Bytes limit,
             base::Bytes counted, const GuardUsage& usage) {
  const auto overhead = std::min(round.settings.overhead.count, limit.count / 4);
  const bool by_overhead = usage.known.count - limit.count <= overhead;
  const bool lowered = counted > limit;
  if (!by_overhead && !lowered) return false;
  const auto [since, first] = round.state.jobs[job.id].over_hard_since.try_emplace(gpu.uuid, round.now);
  if (first) {
    Tell(round, job, gpu, kOverLimit,
         fmt::format("{} uses {} on {}, over its limit of {}: it gets no more memory{}", NameOf(job),
                     Exactly(usage.known), NameOf(gpu), Exactly(limit),
                     by_overhead ? "; what it is over is what the driver takes for contexts and code"
                                 : fmt::format(", and is ended in {} unless it gives some back",
                                               base::FormatDuration(round.settings.lowered_patience))),
         {{"used", Count(usage.known)}, {"limit", Count(limit)}, {"counted", Count(counted)}});
  }
  return by_overhead || round.now - since->second < round.settings.lowered_patience;
}

void HoldHard(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu, const JobLimit& limits,
              const GuardUsage& usage) {
  const base::Bytes limit = *limits.hard;
  if (usage.known <= limit) {
    round.state.jobs[job.id].over_hard_since.erase(gpu.uuid);
    return;
  }
  if (limits.counted && IsLetBe(round, job, gpu, limit, *limits.counted, usage)) return;
  EndJob(round, job, gpu,
         {std::string(kHardLimit),
          "memory_limit",
          fmt::format("{} used {} on {}, over its limit of {}", NameOf(job), Exactly(usage.known),
                      NameOf(gpu), Exactly(limit)),
          {{"used", Count(usage.known)}, {"limit", Count(limit)}, {"processes", usage.processes}}});
}

void HoldSoft(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu, base::Bytes limit,
              const GuardUsage& usage) {
  auto& over = round.state.jobs[job.id].over_soft;
  if (usage.known <= limit) {
    if (usage.known < FallenBelow(limit)) over.erase(gpu.uuid);
    return;
  }
  if (!over.insert(gpu.uuid).second) return;
  Tell(round, job, gpu, kSoftLimit,
       fmt::format("{} uses {} on {}, over its soft limit of {}", NameOf(job), Exactly(usage.known),
                   NameOf(gpu), Exactly(limit)),
       {{"used", Count(usage.known)}, {"soft", Count(limit)}});
}

void TellUnknown(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu,
                 const GuardUsage& usage) {
  if (usage.unknown == 0 || !round.state.jobs[job.id].unknown_reported.insert(gpu.uuid).second) return;
  Tell(round, job, gpu, kUsageUnknown,
       fmt::format("{} has a limit, but the driver does not tell the memory of {} of its {} processes on {}: "
                   "only what it tells is held to the limit",
                   NameOf(job), usage.unknown, usage.processes, NameOf(gpu)),
       {{"used", Count(usage.known)}, {"unknown", usage.unknown}, {"processes", usage.processes}});
}

}  // namespace

void HoldLimits(DecisionContext& round, const GpuSnapshot& gpu) {
  auto usages = UsageByJob(gpu.processes);
  for (const auto& job : round.snapshot.jobs) {
    const auto limits = job.limits.find(gpu.uuid);
    if (gpu.taken_at <= job.started_at) continue;
    if (limits == job.limits.end() || !limits->second.soft)
      round.state.jobs[job.id].over_soft.erase(gpu.uuid);
    if (limits == job.limits.end()) continue;
    const JobLimit& limit = limits->second;
    const GuardUsage usage = usages[job.id];
    if (limit.hard) HoldHard(round, job, gpu, limit, usage);
    if (round.state.jobs[job.id].ending.stage != EndingStage::kNone) continue;
    if (limit.soft) HoldSoft(round, job, gpu, *limit.soft, usage);
    if (limit.soft || limit.hard) TellUnknown(round, job, gpu, usage);
  }
}

}  // namespace gpuman::guard
