#include "suspend/idle.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuman::suspend {

using base::Millis;
using base::MonoTime;

Idleness IdlenessOf(const IdleJob& job) {
  Idleness found;
  if (!job.after) return found;
  if (!job.no_gate.empty()) {
    found.why_never = job.no_gate;
    return found;
  }
  bool any = false, all_idle = true;
  for (const IdleProcess& process : job.processes) {
    if (!process.on_gpu) continue;
    if (!process.has_shim) {
      found.why_never =
          fmt::format("process {} has no libgpuman.so in it, so its calls are not seen", process.id.pid);
      continue;
    }
    any = true;
    found.calls = found.calls || process.activity == ProcessActivity::kWaits;
    all_idle = all_idle && process.activity == ProcessActivity::kIdle;
    found.since = std::max(found.since, process.since);
  }
  found.idle = any && all_idle && found.why_never.empty();
  return found;
}

namespace {

// Away for being idle, or on the way there.
bool MayWake(const IdleJob& job) {
  const bool away = job.phase == SuspensionPhase::kSuspending || job.phase == SuspensionPhase::kSuspended;
  return away && job.reason == kIdleReason;
}

bool Calls(const IdleJob& job) {
  return job.called ||
         std::any_of(job.processes.begin(), job.processes.end(), [](const IdleProcess& process) {
           return process.has_shim && process.activity == ProcessActivity::kWaits;
         });
}

}  // namespace

IdleDecisions DecideIdle(const std::vector<IdleJob>& jobs, const IdleSettings& settings,
                         const std::map<base::JobId, IdleBackoff>& history, MonoTime now) {
  IdleDecisions decisions;
  const auto look_at = [&](MonoTime time) {
    decisions.again = decisions.again ? std::min(*decisions.again, time) : time;
  };
  for (const IdleJob& job : jobs) {
    if (MayWake(job)) {  // also where the setting was taken away meanwhile
      if (Calls(job)) decisions.wake.push_back(job.job);
      continue;
    }
    if (job.phase != SuspensionPhase::kRunning) continue;
    const Idleness found = IdlenessOf(job);
    if (!found.idle) continue;
    const auto known = history.find(job.job);
    const MonoTime not_before = known == history.end() ? MonoTime{} : known->second.not_before;
    const MonoTime spare = std::max(found.since + std::min(*job.after, settings.for_pressure), not_before);
    const MonoTime due = std::max(found.since + *job.after, not_before);
    if (now < spare) {
      look_at(spare);
      continue;
    }
    decisions.spare[job.job] = found.since;
    if (now < due)
      look_at(due);
    else
      decisions.leave.push_back({job.job, std::chrono::duration_cast<Millis>(now - found.since)});
  }
  return decisions;
}

void RecordFailure(IdleBackoff& history, IdleFailure failure, Millis after, const IdleSettings& settings,
                   MonoTime now) {
  const Millis wait = failure == IdleFailure::kNotAtRest ? after : std::max(after, settings.after_failure);
  history.not_before = now + wait;
}

Millis WatchFor(Millis after) { return std::clamp(after / 4, Millis(20), Millis(1000)); }

}  // namespace gpuman::suspend
