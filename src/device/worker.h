// Runs what calls the driver on threads of its own, so that a call that hangs never hangs the daemon.
//
// Each piece of work has its own thread: there are few of them, and one that hangs holds nobody else up.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/units.h"

namespace gpuman::driver {
class Nvml;
}

namespace gpuman::device {

class Worker {
 public:
  // Runs what it is given on the loop's thread; called from others.
  using Post = std::function<void(std::function<void()>)>;
  // The driver, or why there is none; on the worker's thread.
  using Work = std::function<void(const driver::Nvml*, const base::Error*)>;

  explicit Worker(Post post);
  // Waits so long for what is under way; what has not come back then is left behind with all it needs.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // `then` is posted when `work` is done; never after Stop.
  void Do(Work work, std::function<void()> then);
  // Waits up to `patience`. False: a thread is left in the driver, and the process should end by _exit.
  bool Stop(base::Millis patience);

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // shared with threads that may stay in a driver call after our end
};

}  // namespace gpuman::device
