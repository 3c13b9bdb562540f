// Jobs with processes that somebody has stopped (SIGSTOP). Neither its shim nor the driver does anything
// about a stopped process, so one is let run until its job is off the GPU, and stopped again then, as its
// user left it. A job that was suspended for it comes back when its user lets the processes go on.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "daemon/suspension/suspend_controller.h"

namespace gpuman::daemon {

// The reason of a job that was suspended because its processes were stopped: it comes back when they go on.
inline constexpr const char* kProcessStopped = "process_stopped";

class StoppedJobs {
 public:
  // Both must outlive this object.
  StoppedJobs(Core& core, SuspendController& controller) : core_(core), controller_(controller) {}

  // Its processes that are stopped by a signal: those can be let go on.
  std::vector<base::ProcessId> ProcessesOf(base::JobId job) const;
  // Suspends the job, also where some of its processes are stopped.
  void Suspend(base::JobId job, suspend::event::SuspendAsked asked, SuspendController::Done done);
  // It is about to be off its GPU, with processes that are let run for that.
  bool IsTakenOff(base::JobId job) const { return taking_off_.contains(job); }

  void OnPhase(base::JobId job, suspend::SuspensionPhase phase);
  // Brings back whose users have let them go on.
  void AfterSamples();

 private:
  Core& core_;
  SuspendController& controller_;
  std::set<base::JobId> taking_off_;
  // Suspended because their processes were stopped; until when one that was stopped again may not show it
  // yet.
  std::map<base::JobId, base::MonoTime> suspended_;
};

}  // namespace gpuman::daemon
