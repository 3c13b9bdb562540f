#include "daemon/suspension/stopped_job_controller.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "daemon/core/core.h"
#include "daemon/shims/process_stop.h"

namespace gpuman::daemon {
std::vector<base::ProcessId> StoppedJobController::ProcessesOf(base::JobId job) const {
  std::vector<base::ProcessId> stopped;
  const auto* const record = controller_.RecordOf(job);
  for (const auto& view :
       controller_.readings().ProcessesOf(job, record ? *record : suspend::SuspensionRecord{}))
    if (IsStopped(view.id) == ProcessStopCause::kSignal) stopped.push_back(view.id);
  return stopped;
}

void StoppedJobController::Suspend(base::JobId id, suspend::event::SuspendAsked asked,
                                   SuspendController::Done done) {
  const auto stopped = ProcessesOf(id);
  for (const auto& process : stopped) (void)base::SendSignal(process, SIGCONT);
  if (!stopped.empty()) taking_off_.insert(id);
  controller_.Suspend(id, std::move(asked), [this, id, stopped, done = std::move(done)](base::Result<> off) {
    if (!stopped.empty()) taking_off_.erase(id);
    const auto* const job = core_.jobs().Find(id);
    const bool runs = job && job->state == spec::JobState::kRunning;  // no stop for an ending job
    for (const auto& process : stopped)
      if (runs) (void)base::SendSignal(process, SIGSTOP);
    done(std::move(off));
  });
}

void StoppedJobController::OnPhase(base::JobId job, suspend::SuspensionPhase phase) {
  const auto* const record = controller_.RecordOf(job);
  if (record && phase == suspend::SuspensionPhase::kSuspended && record->reason == kProcessStopped)
    suspended_.insert(job);
  else
    suspended_.erase(job);
}

void StoppedJobController::AfterSamples() {
  const auto jobs = suspended_;
  for (const auto id : jobs) {
    const auto* const record = controller_.RecordOf(id);
    if (!record || taking_off_.contains(id)) continue;
    const bool stopped = std::any_of(record->held.begin(), record->held.end(),
                                     [](const auto& held) { return IsOrWillBeStopped(held.first); });
    if (!stopped) controller_.Resume(id, std::nullopt, [](const base::Result<>&) {});
  }
}

}  // namespace gpuman::daemon
