// How a job or process is ended: SIGTERM, the grace, SIGKILL, and SIGKILL again while it is still listed on a
// GPU.
#include <fmt/format.h>

#include <algorithm>

#include "guard/decision_context.h"

namespace gpuman::guard {
namespace {

const JobSnapshot* FindJob(const Snapshot& snapshot, JobId id) {
  for (const auto& job : snapshot.jobs)
    if (job.id == id) return &job;
  return nullptr;
}

bool IsListedAnywhere(const Target& target, const Snapshot& snapshot) {
  return std::any_of(snapshot.gpus.begin(), snapshot.gpus.end(),
                     [&](const GpuSnapshot& gpu) { return IsListed(target, gpu); });
}

Action ActionFor(ActionKind what, const Target& target) {
  Action action;
  action.what = what;
  action.job = target.job;
  if (!target.job) action.process = target.process;
  return action;
}

Event EventFor(const DecisionContext& round, const Target& target, std::string kind, std::string gpu) {
  Event event;
  event.kind = std::move(kind);
  event.at = round.now;
  event.job = target.job;
  event.gpu = std::move(gpu);
  if (!target.job) event.pid = target.process.pid;
  event.data["decided_ns"] = Nanoseconds(round.now);
  return event;
}

void Begin(DecisionContext& round, const Target& target, Ending& ending, base::Millis grace,
           const GpuSnapshot& gpu, GuardCause cause) {
  const bool at_once = grace.count() <= 0;
  Action action = ActionFor(at_once ? ActionKind::kKill : ActionKind::kTerminate, target);
  action.first = true;
  action.note_in_log = target.job.has_value();
  action.event = EventFor(round, target, std::move(cause.kind), gpu.uuid);
  action.event.reason = cause.reason;
  action.event.message = cause.message;
  action.event.data.merge(cause.data);
  action.event.data["sampled_ns"] = Nanoseconds(gpu.taken_at);
  action.event.data["grace_ms"] = std::max<std::int64_t>(0, grace.count());
  round.actions.push_back(std::move(action));

  ending.stage = at_once ? EndingStage::kKilled : EndingStage::kTerminating;
  ending.gpu = gpu.uuid;
  ending.reason = std::move(cause.reason);
  ending.message = std::move(cause.message);
  ending.signalled_at = round.now;
  ending.kill_at = round.now + grace;
  ending.killed_at = round.now;
}

void Continue(DecisionContext& round, const Target& target, const std::string& name, Ending& ending) {
  if (ending.stage == EndingStage::kTerminating && round.now >= ending.kill_at) {
    Action action = ActionFor(ActionKind::kKill, target);
    action.note_in_log = target.job.has_value();
    action.event = EventFor(round, target, std::string(kSigkillSent), ending.gpu);
    const auto grace = std::chrono::ceil<base::Millis>(ending.kill_at - ending.signalled_at);
    action.event.message = fmt::format("{} did not end within {} of SIGTERM: SIGKILL. {}", name,
                                       base::FormatDuration(grace), ending.message);
    round.actions.push_back(std::move(action));
    ending.stage = EndingStage::kKilled;
    ending.killed_at = ending.signalled_at = round.now;
    return;
  }
  if (ending.stage != EndingStage::kKilled || round.now - ending.signalled_at < round.settings.kill_again)
    return;
  // Only a sample that is newer than the last signal shows that the signal did not suffice.
  for (const auto& gpu : round.snapshot.gpus) {
    if (!round.IsFresh(gpu) || gpu.taken_at <= ending.signalled_at || !IsListed(target, gpu)) continue;
    round.actions.push_back(ActionFor(ActionKind::kKill, target));
    ending.signalled_at = round.now;
    return;
  }
}

}  // namespace

Target TargetOf(const gpu::AttributedProcess& process) {
  return process.job ? Target{process.job, {}} : Target{std::nullopt, process.id};
}

bool IsListed(const Target& target, const GpuSnapshot& gpu) {
  return std::any_of(gpu.processes.begin(), gpu.processes.end(),
                     [&](const gpu::AttributedProcess& process) { return TargetOf(process) == target; });
}

void ForgetEnded(DecisionContext& round) {
  auto& state = round.state;
  std::erase_if(state.jobs,
                [&](const auto& entry) { return FindJob(round.snapshot, entry.first) == nullptr; });
  for (const auto& job : round.snapshot.jobs) {
    auto& known = state.jobs[job.id];
    if (known.run != job.run) {
      known = {};
      known.run = job.run;
    }
  }
  std::erase_if(state.processes, [&](const auto& entry) {
    return !IsListedAnywhere(Target{std::nullopt, entry.first}, round.snapshot);
  });
}

void ContinueEndings(DecisionContext& round) {
  for (const auto& job : round.snapshot.jobs)
    Continue(round, Target{job.id, {}}, NameOf(job), round.state.jobs[job.id].ending);
  for (auto& [id, ending] : round.state.processes)
    Continue(round, Target{std::nullopt, id}, fmt::format("process {}", id.pid), ending);
}

void EndJob(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu, GuardCause cause) {
  auto& ending = round.state.jobs[job.id].ending;
  if (ending.stage != EndingStage::kNone) return;
  Begin(round, Target{job.id, {}}, ending, job.grace.value_or(round.settings.grace), gpu, std::move(cause));
}

void EndProcess(DecisionContext& round, const gpu::AttributedProcess& process, const GpuSnapshot& gpu,
                GuardCause cause) {
  auto& ending = round.state.processes[process.id];
  if (ending.stage != EndingStage::kNone) return;
  Begin(round, TargetOf(process), ending, round.settings.grace, gpu, std::move(cause));
}

bool IsLeaving(const DecisionContext& round, const Target& target) {
  const auto may_come_back = [&](const Ending& ending) {
    return ending.stage == EndingStage::kTerminating ||
           (ending.stage == EndingStage::kKilled &&
            round.now - ending.killed_at < round.settings.victim_patience);
  };
  if (!target.job) {
    const auto it = round.state.processes.find(target.process);
    return it != round.state.processes.end() && may_come_back(it->second);
  }
  const auto it = round.state.jobs.find(*target.job);
  if (it == round.state.jobs.end()) return false;
  if (it->second.ending.stage != EndingStage::kNone) return may_come_back(it->second.ending);
  const JobSnapshot* job = FindJob(round.snapshot, *target.job);
  if (!job) return false;
  if (job->ending_since && round.now - *job->ending_since < round.settings.victim_patience) return true;
  return IsGoingOff(round, *job);
}

}  // namespace gpuman::guard
