// Jobs with processes that somebody has stopped (SIGSTOP). Neither the shim nor the driver can move the
// memory of a stopped process. So the daemon lets such a process run until its job is off the GPU, and then
// stops it again, as the user left it. A job that was suspended because its processes were stopped comes back
// when the user lets them go on.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <set>
#include <vector>

#include "base/process.h"
#include "daemon/suspension/suspend_controller.h"

namespace gpuman::daemon {

// The reason of a job that was suspended because its processes were stopped: the job comes back when they go
// on.
inline constexpr const char* kProcessStopped = "process_stopped";

class StoppedJobController {
 public:
  // Both must outlive this object.
  StoppedJobController(Core& core, SuspendController& controller) : core_(core), controller_(controller) {}

  // The job's processes that are stopped by a signal. The daemon can let those go on.
  std::vector<base::ProcessId> ProcessesOf(base::JobId job) const;
  // Suspends the job, also where some of its processes are stopped.
  void Suspend(base::JobId job, suspend::event::SuspendAsked asked, SuspendController::Done done);
  // Whether the job is on its way off its GPU, with stopped processes that run for that time.
  bool IsTakenOff(base::JobId job) const { return taking_off_.contains(job); }

  void OnPhase(base::JobId job, suspend::SuspensionPhase phase);
  // Brings back jobs whose users have let their processes go on.
  void AfterSamples();

 private:
  Core& core_;
  SuspendController& controller_;
  std::set<base::JobId> taking_off_;
  // Jobs that were suspended because their processes were stopped.
  std::set<base::JobId> suspended_;
};

}  // namespace gpuman::daemon
