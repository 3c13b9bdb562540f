// Jobs that leave the GPU for its reserve instead of being ended, and come back.
#include <fmt/format.h>

#include <algorithm>

#include "guard/decision_context.h"

namespace gpuman::guard {
namespace {

bool WasRefused(const JobSnapshot& job, base::MonoTime asked) {
  return job.refusal && job.refusal->at >= asked;
}

base::Millis ReturnAfter(const PolicySettings& settings, unsigned departures) {
  base::Millis after = settings.return_after;
  for (; departures > 1 && after < settings.return_after_most; --departures) after *= 2;
  return std::min(after, std::max(settings.return_after, settings.return_after_most));
}

}  // namespace

void FollowSuspensions(DecisionContext& round) {
  for (const auto& job : round.snapshot.jobs) {
    auto& known = round.state.jobs[job.id];
    if (job.residency == JobResidency::kOff) {
      known.asked_to_leave.reset();
      known.away = true;
    } else if (job.residency == JobResidency::kOnGpu && known.away) {
      known.away = false;
      known.back_at = round.now;
    }
  }
}

bool IsGoingOff(const DecisionContext& round, const JobSnapshot& job) {
  if (job.residency == JobResidency::kOff) return false;
  const auto known = round.state.jobs.find(job.id);
  if (known != round.state.jobs.end() && known->second.asked_to_leave) {
    const base::MonoTime asked = *known->second.asked_to_leave;
    return !WasRefused(job, asked) && round.now - asked < round.settings.suspend_patience;
  }
  return job.residency == JobResidency::kLeaving &&
         round.now - job.residency_since < round.settings.suspend_patience;
}

std::optional<std::string> WhyNotSuspended(const DecisionContext& round, const JobSnapshot& job,
                                           const GpuSnapshot& gpu, const GuardUsage& usage) {
  if (usage.unknown > 0) return "the driver does not tell how much room its return would need";
  // `free` and `used` together are what programs can have. What would stay of the job is a part of both
  // sides.
  if (usage.known + gpu.reserve > gpu.used + gpu.free)
    return fmt::format("{} and the reserve are more than {} has, so it could not come back",
                       base::FormatBytes(usage.known), NameOf(gpu));
  const auto& asked = round.state.jobs[job.id].asked_to_leave;
  if (!asked || round.now - *asked >= round.settings.suspend_again) {
    if (job.residency != JobResidency::kLeaving) return std::nullopt;
    return fmt::format("it was not off the GPU within {}",
                       base::FormatDuration(round.settings.suspend_patience));
  }
  if (WasRefused(job, *asked)) return job.refusal->why;
  return fmt::format("it was not off the GPU within {}",
                     base::FormatDuration(round.settings.suspend_patience));
}

base::Bytes LeftOn(const JobSnapshot& job, const GpuSnapshot& gpu) {
  const auto left = job.left.find(gpu.uuid);
  return left == job.left.end() ? base::Bytes{} : left->second;
}

void SuspendJob(DecisionContext& round, const JobSnapshot& job, const GpuSnapshot& gpu, GuardCause cause) {
  auto& known = round.state.jobs[job.id];
  const bool again = known.departures > 0 && round.now - known.back_at < round.settings.calm;
  known.departures = again ? known.departures + 1 : 1;
  known.asked_to_leave = round.now;

  Action action;
  action.what = ActionKind::kSuspend;
  action.job = job.id;
  action.note_in_log = true;
  action.return_after = ReturnAfter(round.settings, known.departures);
  action.event.kind = std::move(cause.kind);
  action.event.at = round.now;
  action.event.job = job.id;
  action.event.gpu = gpu.uuid;
  action.event.reason = std::move(cause.reason);
  action.event.message = std::move(cause.message);
  action.event.data = std::move(cause.data);
  action.event.data["decided_ns"] = Nanoseconds(round.now);
  action.event.data["sampled_ns"] = Nanoseconds(gpu.taken_at);
  action.event.data["return_after_ms"] = action.return_after.count();
  round.actions.push_back(std::move(action));
}

}  // namespace gpuman::guard
