// Reads NVML on worker threads, so that a driver call that hangs never hangs the daemon.
//
// A lane is a thread and the GPUs it reads, one after the other. All start in one lane. When a round of a GPU
// has not come back within `call_limit`, CheckWatchdog() leaves that GPU to the thread that is stuck in it,
// reports it unresponsive, and moves the lane's other GPUs to a fresh thread. When the call comes back, the
// GPU is reported again as what it is, and its own thread goes on with it. A GPU whose rounds keep taking
// longer than `slow_round` gets a lane of its own too. So no GPU waits for another's driver call for longer
// than the limit, and there are never more threads than GPUs and one,
// and one that is stuck in asking for errors.
//
// What is read: memory each round; processes when the memory in use changed and some rounds after, each round
// while the period is below `rest_period`, and with each slow tick; utilization, temperature and power with
// each slow tick, and a part of the details while they are wanted. A round that saw nothing new is not
// reported, a slow tick always is. Rounds are aligned to multiples of their period, so that GPUs at rest cost
// one wake-up together, and with it the driver is asked for errors (Xids) that came since. Without driver or
// devices the sampler says so once and tries again each `retry_period`.
//
// The instances of GPUs in MIG mode are read as GPUs are. Each slow tick looks whether they are still those
// of the inventory, and reports another one where they are not; one that is gone is not reported as lost.
//
// All methods from one thread (the event loop), but not from a callback. The callbacks run on the worker
// threads, one at a time (on the caller's from within CheckWatchdog), and never after Stop returned. They
// must be quick: post and return.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/result.h"
#include "base/units.h"
#include "gpu/inventory.h"
#include "gpu/sample.h"
#include "gpu/xid_poll.h"

namespace gpuman::driver {
class Nvml;
}

namespace gpuman::gpu {

struct SamplerSettings {
  base::Millis rest_period{100};
  base::Millis slow_period{1000};
  base::Millis retry_period{5000};  // no driver, no devices, a GPU lost
  base::Millis call_limit{2000};    // a round of one GPU, or the loading of the driver
  base::Millis slow_round{100};
};

struct SamplerCallbacks {
  std::function<void(Inventory)> on_inventory;  // first, and whenever it changed
  std::function<void(Sample)> on_sample;        // of a GPU that was in an inventory before
  std::function<void(XidSeen)> on_xid{};        // empty: nobody asks the driver for its errors
};

class Sampler {
 public:
  // Loads and initialises NVML; called on a worker thread, again after each failure.
  using LoadNvml = std::function<base::Result<std::shared_ptr<const driver::Nvml>>()>;
  static base::Result<std::shared_ptr<const driver::Nvml>> LoadSystemNvml();

  Sampler(SamplerSettings settings, SamplerCallbacks callbacks, LoadNvml load = LoadSystemNvml);
  // The same as Stop.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Once.
  void Start();
  // Joins the threads that are not in a driver call or come back from it within `call_limit`. Others are
  // left behind with everything they need; what they read reaches nobody. A process that has left a thread
  // in a driver should end by _exit, lest static objects go away under it.
  void Stop();
  // Whether Stop left a thread behind.
  bool left_a_thread() const { return left_a_thread_; }

  // Between two reads of this GPU's memory. Takes effect at once when it makes the next read come sooner.
  // An unknown GPU is ignored.
  void SetPeriod(const std::string& uuid, base::Millis period);
  // Reads everything of this GPU, or of all, now, and reports it; when there is no GPU, looks for some. All:
  // whether GPUs are split as they were is looked at, too.
  void Poke(const std::string& uuid);
  void PokeAll();

  // Until then the slow ticks read details too (detail_reader.h): somebody looks at them.
  void WantDetails(base::MonoTime until);
  // How long the rounds so far took, in seconds; rounds in which the driver could not be asked left out.
  base::Histogram Rounds() const;

  // To be called about every half `call_limit`. No system call while nothing is stuck.
  void CheckWatchdog();

 private:
  class Core;
  std::shared_ptr<Core> core_;  // shared with threads that may stay in a driver call after our end
  bool left_a_thread_ = false;
};

}  // namespace gpuman::gpu
