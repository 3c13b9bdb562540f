// Carries the policy's actions out. The only part of the guard that touches the world, through Actuator.
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

struct Sent {
  std::size_t processes = 0;
  base::MonoTime at{};  // when the last of them got it
};

// What the guard needs done, by the daemon. Nothing here may block.
class Actuator {
 public:
  virtual ~Actuator() = default;
  // Before the first signal: makes the keeper (and the job's record) know why the run is about to end. A
  // keeper that cannot be told is no reason to wait.
  virtual void Announce(JobId job, const std::string& reason, const std::string& detail) = 0;
  // The signal to every process of the job. SIGKILL means: until none is left that could fork. `sent` is
  // called when that is done, and before anybody is told of the job's end; never from within this call, nor
  // where the order is refused.
  virtual base::Result<> SignalJob(JobId job, int signal, std::function<void(const Sent&)> sent) = 0;
  virtual base::Result<> SignalProcess(base::ProcessId process, int signal) = 0;
  // Off the GPU, and back when there has been room for `return_after`. Returns at once: what comes of it is
  // told to the guard (SetResidency, SetRefusal), and not from within this call if it is a refusal.
  virtual void SuspendJob(JobId job, const std::string& reason, const std::string& detail,
                          base::Millis return_after) = 0;
  // A line in the job's log.
  virtual void Note(JobId job, const std::string& line) = 0;
  virtual void Emit(Event event) = 0;
};

class Enforcer {
 public:
  // Both must outlive this object.
  Enforcer(Actuator& actuator, const base::Clock& clock) : actuator_(actuator), clock_(clock) {}

  // Signals first, all of them, then the telling: nothing that is slow stands before a SIGKILL. Except the
  // announcement of the reason, which is one message. The event of a signal to a job is told when it has been
  // sent.
  void Perform(std::vector<Action> actions);

 private:
  // The action's event is taken where it is told later.
  base::Result<> Send(Action& action);

  Actuator& actuator_;
  const base::Clock& clock_;
};

}  // namespace gpuman::guard
