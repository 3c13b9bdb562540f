// The reserve of one GPU: which job or process is ended, or suspended, when free memory falls below it.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "guard/decision_context.h"

namespace gpuman::guard {
namespace {

struct Candidate {
  const gpu::AttributedProcess* process = nullptr;  // set: an unmanaged process; otherwise `job`
  const JobSnapshot* job = nullptr;
  bool over = false;   // is over one of its limits
  bool bound = false;  // has a hard limit
  bool idle = false;   // it makes no call, and can leave until its next one
  GuardUsage usage;
};

// The order of victims; the first is ended first. It is a total order, so that the choice does not depend on
// the order in which they are stored.
bool GoesBefore(const Candidate& a, const Candidate& b) {
  if (a.idle != b.idle) return a.idle;
  if ((a.job == nullptr) != (b.job == nullptr)) return a.job == nullptr;
  if (!a.job)
    return std::tie(a.process->id.start_time, a.process->id.pid) >
           std::tie(b.process->id.start_time, b.process->id.pid);
  if (a.over != b.over) return a.over;
  if (a.job->priority != b.job->priority) return a.job->priority < b.job->priority;
  // A job with a hard limit was promised its memory.
  if (a.bound != b.bound) return b.bound;
  return std::tie(a.job->started_at, a.job->id) > std::tie(b.job->started_at, b.job->id);
}

base::Bytes FreedBy(const Candidate& job, const GpuSnapshot& gpu) {
  return job.usage.known - LeftOn(*job.job, gpu);
}

bool CanLeaveIdle(const DecisionContext& round, const Candidate& candidate, const GpuSnapshot& gpu) {
  return candidate.job->idle && FreedBy(candidate, gpu).count > 0 &&
         !WhyNotSuspended(round, *candidate.job, gpu, candidate.usage);
}

std::vector<Candidate> Candidates(const DecisionContext& round, const GpuSnapshot& gpu) {
  std::vector<Candidate> candidates;
  auto usages = UsageByJob(gpu.processes);
  for (const auto& job : round.snapshot.jobs) {
    const GuardUsage usage = usages[job.id];
    if (usage.known.count == 0 && usage.unknown == 0) continue;
    if (job.ending_since || gpu.taken_at <= job.started_at) continue;
    if (job.residency == JobResidency::kOff || IsGoingOff(round, job)) continue;
    if (round.state.jobs[job.id].ending.stage != EndingStage::kNone) continue;
    const auto limit = job.limits.find(gpu.uuid);
    const auto limits = limit == job.limits.end() ? JobLimit{} : limit->second;
    const bool over =
        (limits.soft && usage.known > *limits.soft) || (limits.hard && usage.known > *limits.hard);
    Candidate candidate{nullptr, &job, over, limits.hard.has_value(), false, usage};
    candidate.idle = CanLeaveIdle(round, candidate, gpu);
    candidates.push_back(candidate);
  }
  if (!round.settings.unmanaged_victims) return candidates;
  for (const auto& process : gpu.processes) {
    if (!IsUnmanaged(process, round.settings) || !process.memory || process.memory->count == 0) continue;
    if (round.state.processes.contains(process.id)) continue;
    candidates.push_back({&process, nullptr, false, false, false, {*process.memory, 1, 0}});
  }
  return candidates;
}

std::string WhyThisOne(const Candidate& victim) {
  if (!victim.job) return "not managed by gpuman";
  if (victim.idle) return "idle";
  if (victim.over) return "over its limit";
  return fmt::format("priority {}, the newest of the lowest", victim.job->priority);
}

// A job that is checkpointed is not listed on the GPU any more, while the mover still copies its memory from
// there.
bool IsJobGoingOff(const DecisionContext& round, const Target& target) {
  return std::any_of(round.snapshot.jobs.begin(), round.snapshot.jobs.end(),
                     [&](const JobSnapshot& job) { return job.id == target.job && IsGoingOff(round, job); });
}

// True while memory of a target is on its way back. The target may be ended or suspended on this GPU for any
// reason.
bool WaitsForMemory(DecisionContext& round, GpuPressureState& pressure, const GpuSnapshot& gpu) {
  if (!pressure.victim) {
    for (const auto& process : gpu.processes)
      if (IsLeaving(round, TargetOf(process))) {
        pressure.victim = TargetOf(process);
        pressure.victim_gone.reset();
        break;
      }
  }
  if (!pressure.victim) return false;
  if (IsLeaving(round, *pressure.victim) &&
      (IsListed(*pressure.victim, gpu) || IsJobGoingOff(round, *pressure.victim))) {
    pressure.victim_gone.reset();
    return true;
  }
  if (!pressure.victim_gone) pressure.victim_gone = gpu.taken_at;
  if (gpu.taken_at - *pressure.victim_gone < round.settings.settle) return true;
  pressure.victim.reset();
  pressure.victim_gone.reset();
  // Another target may be leaving too.
  return WaitsForMemory(round, pressure, gpu);
}

// How the pressure is relieved.
struct Choice {
  const Candidate* victim = nullptr;
  bool suspend = false;
  std::string note{};  // for the message: what else could have been done, and why it was not
};

bool IsEnough(base::Bytes freed, const GpuSnapshot& gpu) { return gpu.free + freed >= gpu.reserve; }

// The first candidate could be suspended, but what would stay of it is too much. Finds one to suspend all the
// same; nullptr: the first is to be ended. Where its end would be enough, no job that is more important
// leaves.
const Candidate* SuspendedInstead(const DecisionContext& round, const GpuSnapshot& gpu,
                                  const std::vector<Candidate>& candidates) {
  const Candidate& first = candidates.front();
  const bool end_helps = IsEnough(first.usage.known, gpu);
  const Candidate* part = nullptr;
  base::Bytes all, whole;
  for (const Candidate& each : candidates) {
    const bool equal = each.over == first.over && each.job->priority == first.job->priority;
    if (end_helps && !equal) continue;
    whole += each.usage.known;
    if (WhyNotSuspended(round, *each.job, gpu, each.usage)) continue;
    const base::Bytes freed = FreedBy(each, gpu);
    if (equal && IsEnough(freed, gpu)) return &each;
    if (!part && freed.count > 0) part = &each;
    all += freed;
  }
  return IsEnough(all, gpu) || !IsEnough(whole, gpu) ? part : nullptr;
}

// `candidates` are in their order.
Choice Choose(const DecisionContext& round, const GpuSnapshot& gpu,
              const std::vector<Candidate>& candidates) {
  const Candidate& first = candidates.front();
  if (first.idle) return {&first, true};
  if (!first.job || round.settings.on_pressure != OnPressure::kSuspend) return {&first};
  if (const auto why_not = WhyNotSuspended(round, *first.job, gpu, first.usage))
    return {&first, false, ", which could not be suspended: " + *why_not};
  const base::Bytes left = std::min(LeftOn(*first.job, gpu), first.usage.known);
  if (left.count == 0 || IsEnough(FreedBy(first, gpu), gpu)) return {&first, true};
  const Candidate* const instead = SuspendedInstead(round, gpu, candidates);
  const std::string stays = fmt::format("{} of it would stay on {}", base::FormatBytes(left), NameOf(gpu));
  if (!instead) return {&first, false, ", as its suspension would not help: " + stays};
  if (instead == &first) return {&first, true};
  return {instead, true, fmt::format(", and not {}: {}", NameOf(*first.job), stays)};
}

// "; 1GiB of suspended job 7 't7' stay there".
std::string WhatStays(const DecisionContext& round, const GpuSnapshot& gpu) {
  std::string text;
  for (const auto& job : round.snapshot.jobs)
    if (job.residency == JobResidency::kOff && LeftOn(job, gpu).count > 0)
      text +=
          fmt::format("; {} of suspended {} stay there", base::FormatBytes(LeftOn(job, gpu)), NameOf(job));
  return text;
}

void TellUnrelieved(DecisionContext& round, GpuPressureState& pressure, const GpuSnapshot& gpu,
                    std::string message) {
  if (std::exchange(pressure.unrelieved_reported, true)) return;
  Action action;
  action.event.kind = kPressureUnrelieved;
  action.event.at = round.now;
  action.event.gpu = gpu.uuid;
  action.event.message = std::move(message);
  action.event.data = {{"free", Count(gpu.free)}, {"reserve", Count(gpu.reserve)}};
  round.actions.push_back(std::move(action));
}

}  // namespace

void HoldReserve(DecisionContext& round, const GpuSnapshot& gpu) {
  auto& pressure = round.state.pressure[gpu.uuid];
  const bool waits = WaitsForMemory(round, pressure, gpu);
  if (gpu.free >= gpu.reserve) {
    pressure.unrelieved_reported = false;
    pressure.since.reset();
    return;
  }
  if (gpu.reserve >= gpu.total) {
    // A mistyped reserve must not end every job on the machine.
    return TellUnrelieved(
        round, pressure, gpu,
        fmt::format("the reserve of {} set for {} is not smaller than the GPU: it is not held",
                    Exactly(gpu.reserve), NameOf(gpu)));
  }
  if (waits) return;
  if (!pressure.since) pressure.since = gpu.taken_at;
  auto candidates = Candidates(round, gpu);
  if (candidates.empty()) {
    return TellUnrelieved(
        round, pressure, gpu,
        fmt::format("{} has {} free, below its reserve of {}, and nothing on it may be ended{}", NameOf(gpu),
                    Exactly(gpu.free), Exactly(gpu.reserve), WhatStays(round, gpu)));
  }
  std::sort(candidates.begin(), candidates.end(), GoesBefore);
  const auto [victim, suspend, note] = Choose(round, gpu, candidates);

  // The daemon moves the memory of jobs that share the GPU away by itself, so the guard gives it time.
  if (victim->job && victim->job->shares && gpu.taken_at - *pressure.since < round.settings.share_patience)
    return;

  GuardCause cause{
      std::string(suspend ? kPressureSuspend : kDevicePressure),
      suspend && victim->idle ? "idle" : "device_pressure",
      fmt::format("{} had {} free, below its reserve of {}: {} {} with {} ({}){}", NameOf(gpu),
                  Exactly(gpu.free), Exactly(gpu.reserve), suspend ? "suspended" : "ended",
                  victim->job ? NameOf(*victim->job) : NameOf(*victim->process), Exactly(victim->usage.known),
                  WhyThisOne(*victim), note),
      {{"free", Count(gpu.free)}, {"reserve", Count(gpu.reserve)}, {"used", Count(victim->usage.known)}}};
  if (victim->job) {
    cause.data["priority"] = victim->job->priority;
    if (LeftOn(*victim->job, gpu).count > 0) cause.data["left"] = Count(LeftOn(*victim->job, gpu));
    (suspend ? SuspendJob : EndJob)(round, *victim->job, gpu, std::move(cause));
    pressure.victim = Target{victim->job->id, {}};
  } else {
    EndProcess(round, *victim->process, gpu, std::move(cause));
    pressure.victim = Target{std::nullopt, victim->process->id};
  }
  pressure.victim_gone.reset();
}

}  // namespace gpuman::guard
