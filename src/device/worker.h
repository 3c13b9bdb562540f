// Runs work that calls the driver on threads of its own, so that a call that hangs never hangs the daemon.
//
// Each piece of work has its own thread: there are few of them, and one that hangs delays no other.
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
  // Runs its argument on the loop's thread; called from other threads.
  using Post = std::function<void(std::function<void()>)>;
  // Gets the driver, or why there is none. Runs on the worker's thread; if the system gives no thread, on the
  // caller's, with that error.
  using Work = std::function<void(const driver::Nvml*, const base::Error*)>;

  explicit Worker(Post post);
  // Waits two seconds for work that is under way. Work that has not returned then is left behind with
  // everything it needs.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // `then` is posted when `work` is done; never after Stop.
  void Do(Work work, std::function<void()> then);
  // Waits up to `patience`. False: a thread is left in the driver, and the process should end by _exit.
  bool Stop(base::Millis patience);

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // shared with threads that may be in a driver call after the worker's end
};

}  // namespace gpuman::device
