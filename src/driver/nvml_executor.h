// Runs work that calls NVML on threads of its own, so that a call that hangs never hangs the event loop.
#pragma once

#include <functional>
#include <memory>

#include "base/executor.h"
#include "base/result.h"
#include "base/units.h"

namespace gpuman::driver {

class Nvml;

// The driver, or why there is none.
using LoadedNvml = base::Result<const Nvml*>;

// Run and Stop are called from one thread, the loop's.
class NvmlExecutor {
 public:
  enum class Order {
    kAtOnce,   // each piece of work has a thread: one that hangs delays no other
    kInOrder,  // one after the other
  };
  // Runs on a thread of the executor. If the system gives no thread, Run itself calls the work with that
  // error.
  using Work = std::function<void(const LoadedNvml&)>;

  // `to_loop` calls its argument on the loop's thread.
  NvmlExecutor(Order order, base::Executor to_loop);
  // Stops, and waits two seconds for work that is under way. Work that has not returned then is left behind
  // with everything it needs.
  ~NvmlExecutor();
  NvmlExecutor(const NvmlExecutor&) = delete;
  NvmlExecutor& operator=(const NvmlExecutor&) = delete;

  // `then` is posted when `work` is done; never after Stop.
  void Run(Work work, std::function<void()> then);
  // Drops work that has not begun, and waits up to `patience` for work that has. False: a thread is left in
  // the driver, and the process should end by _exit.
  bool Stop(base::Millis patience);

 private:
  struct Core;
  const Order order_;
  std::shared_ptr<Core> core_;  // shared with threads that may be in a driver call after the executor's end
};

}  // namespace gpuman::driver
