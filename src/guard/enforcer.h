// Carries out the policy's actions. The only part of the guard that has an effect outside, through Actuator.
//
// Not thread-safe: lives on the event loop.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"
#include "guard/event.h"
#include "guard/policy.h"

namespace gpuman::guard {

struct SignalJobResult {
  std::size_t processes = 0;
  base::MonoTime at{};  // when the last of them got the signal
};

// What the daemon does for the guard. No method may block.
class Actuator {
 public:
  virtual ~Actuator() = default;
  // Before the first signal: gives the keeper (and the job's record) the reason why the run is about to end.
  // The guard does not wait for a keeper that cannot be reached.
  virtual void Announce(JobId job, const std::string& reason, const std::string& detail) = 0;
  // Sends the signal to every process of the job. SIGKILL is sent until no process is left that could fork.
  // Calls `sent` when that is done, and before the job's end is reported; never from within this call, and
  // not if the order is refused.
  virtual base::Result<> SignalJob(JobId job, int signal,
                                   std::function<void(const SignalJobResult&)> sent) = 0;
  virtual base::Result<> SignalProcess(base::ProcessId process, int signal) = 0;
  // Takes the job off the GPU, and back when there has been room for `return_after`. Returns at once. The
  // daemon reports the result to the guard (SetResidency, SetRefusal); it never reports a refusal from within
  // this call.
  virtual void SuspendJob(JobId job, const std::string& reason, const std::string& detail,
                          base::Millis return_after) = 0;
  // Writes a line into the job's log.
  virtual void Note(JobId job, const std::string& line) = 0;
  virtual void Emit(Event event) = 0;
};

class Enforcer {
 public:
  // Both must outlive this object.
  Enforcer(Actuator& actuator, const base::Clock& clock) : actuator_(actuator), clock_(clock) {}

  // Sends all signals first and reports afterwards, so that nothing slow comes before a SIGKILL. Only the
  // announcement of the reason, one message, comes before. The event of a signal to a job is emitted when the
  // signal has been sent.
  void Perform(std::vector<Action> actions);

 private:
  // Takes the action's event if it is emitted later.
  base::Result<> Send(Action& action);

  Actuator& actuator_;
  const base::Clock& clock_;
};

}  // namespace gpuman::guard
