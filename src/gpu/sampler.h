// Reads NVML on worker threads, so that a driver call that hangs never hangs the daemon.
//
// A lane is a thread and the GPUs it reads, one after the other. All start in one lane. When a call has not
// come back within the time limit, CheckWatchdog() leaves that GPU to the thread that is stuck in it, reports
// it unresponsive, and moves the lane's other GPUs to a fresh thread. When the call comes back the GPU is
// reported again as what it is, and its own thread goes on with it. So a GPU never waits for another's call
// for longer than the limit, and there are never more threads than GPUs and one.
//
// What is read: memory each round; processes when the memory in use changed, each round while the period is
// below `rest_period`, and with each slow tick; utilization, temperature and power with each slow tick. A
// round that saw nothing new is not reported, a slow tick always is. Without driver or devices the sampler
// says so once and tries again each `retry_period`.
//
// All calls from one thread (the event loop); the callbacks run on the worker threads, never on the caller's
// except from within CheckWatchdog and never after Stop or the destructor returned. They must be quick: post
// and return.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "gpu/inventory.h"
#include "gpu/sample.h"

namespace gpuman::driver {
class Nvml;
}

namespace gpuman::gpu {

struct SamplerSettings {
  base::Millis rest_period{100};
  base::Millis slow_period{1000};
  base::Millis retry_period{5000};  // no driver, no devices, GPU lost
  base::Millis call_limit{2000};    // a round of one GPU
};

struct SamplerCallbacks {
  std::function<void(Inventory)> on_inventory;  // first, and whenever it changed
  std::function<void(Sample)> on_sample;
};

class Sampler {
 public:
  // Loads and initialises NVML; called on a worker thread, again after each failure.
  using LoadNvml = std::function<base::Result<std::shared_ptr<driver::Nvml>>()>;

  Sampler(SamplerSettings settings, LoadNvml load, SamplerCallbacks callbacks);
  // The same as Stop.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  void Start();
  // Threads that are not stuck are joined. A stuck one is left behind with everything it needs (its calls
  // reach nobody any more), so stopping takes no longer than one healthy round.
  void Stop();

  // Between two reads of this GPU's memory. Takes effect at once when it makes the next read come sooner.
  void SetPeriod(const std::string& uuid, base::Millis period);
  // Reads everything of this GPU (or of all) now.
  void Poke(const std::string& uuid);
  void PokeAll();

  // To be called about every half `call_limit`. Costs no system call while nothing is stuck.
  void CheckWatchdog();

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // shared with threads that may stay stuck in the driver after our end
};

}  // namespace gpuman::gpu
