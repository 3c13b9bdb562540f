// Reads NVML on worker threads, so that a driver call that hangs never hangs the daemon.
//
// A worker is a thread and the GPUs that it reads, one after the other. All GPUs start in one worker. If a
// round of a GPU has not ended within `call_limit`, CheckWatchdog() leaves that GPU to the thread that is
// stuck in it, reports it unresponsive, and moves the worker's other GPUs to a new thread. When the call
// returns, the GPU is reported with its state again, and its own thread continues with it. A GPU whose rounds
// repeatedly take longer than `slow_round` also gets a worker of its own. So no GPU waits for another's
// driver call for longer than the limit. There are at most as many threads as GPUs and one more, and one each
// that is stuck in asking for errors or for the instances.
//
// What is read: memory in each round; processes when the memory in use changed and in some rounds after that,
// in each round while the period is below `rest_period`, and with each slow tick; utilization, temperature
// and power with each slow tick, and a part of the details while they are wanted. A round without a change is
// not reported; a slow tick always is. Rounds are aligned to multiples of their period, so that idle GPUs
// cause one wake-up together. The same wake-up asks the driver for new errors (Xids). Without a driver or
// devices the sampler reports that once and tries again each `retry_period`.
//
// The instances of GPUs in MIG mode are read like GPUs. Each slow tick checks whether they are still those of
// the inventory, and reports a new inventory if they are not. An instance that is gone is not reported as
// lost.
//
// Call all methods from one thread (the event loop), but not from a callback. The callbacks run on the worker
// threads, one at a time (on the caller's thread within CheckWatchdog), and never after Stop has returned.
// They must be quick: post and return.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/result.h"
#include "base/units.h"
#include "gpu/gpu_sample.h"
#include "gpu/inventory.h"
#include "gpu/xid_poll.h"

namespace gpuman::driver {
class Nvml;
}

namespace gpuman::gpu {

struct SamplerSettings {
  base::Millis rest_period{100};
  base::Millis slow_period{1000};
  base::Millis retry_period{5000};  // no driver, no devices, a GPU lost
  base::Millis call_limit{2000};    // for a round of one GPU, or the loading of the driver
  base::Millis slow_round{100};
  base::Millis energy_period{20};  // while energy is watched
};

struct EnergySample {
  std::string uuid;
  EnergyReading reading;
};

struct SamplerCallbacks {
  std::function<void(Inventory)> on_inventory;    // first, and whenever it changed
  std::function<void(GpuSample)> on_sample;       // for a GPU that was in an inventory before
  std::function<void(XidEvent)> on_xid{};         // empty: the driver is not asked for its errors
  std::function<void(EnergySample)> on_energy{};  // each new value while energy is watched
};

class Sampler {
 public:
  // Loads and initialises NVML; called on a worker thread, and again after each failure.
  using LoadNvml = std::function<base::Result<std::shared_ptr<const driver::Nvml>>()>;
  static base::Result<std::shared_ptr<const driver::Nvml>> LoadSystemNvml();

  Sampler(SamplerSettings settings, SamplerCallbacks callbacks, LoadNvml load = LoadSystemNvml);
  // The same as Stop.
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Call it once.
  void Start();
  // Joins the threads that are not in a driver call or return from it within `call_limit`. Other threads are
  // left behind with everything they need; their results are dropped. A process that has left a thread in a
  // driver should end by _exit, so that no static objects are destroyed under that thread.
  void Stop();
  // Whether Stop left a thread behind.
  bool left_a_thread() const { return left_a_thread_; }

  // Sets the time between two reads of this GPU's memory. A period that makes the next read earlier takes
  // effect at once. An unknown GPU is ignored.
  void SetPeriod(const std::string& uuid, base::Millis period);
  // Reads everything of this GPU, or of all GPUs, now, and reports it; if there is no GPU, looks for some.
  // PokeAll also checks whether the GPUs are still split in the same way.
  void Poke(const std::string& uuid);
  void PokeAll();

  // Until that time the GPU's energy counter is read each `energy_period`, and nothing else with it: a call
  // of some microseconds. An unknown GPU is ignored.
  void WatchEnergy(const std::string& uuid, base::MonoTime until);
  // Until that time the slow ticks read details too (detail_reader.h).
  void WantDetails(base::MonoTime until);
  // The durations of all rounds, in seconds, without rounds in which the driver did not answer.
  base::Histogram Rounds() const;

  // Call it about every half `call_limit`. Makes no system call while nothing is stuck.
  void CheckWatchdog();

 private:
  class Core;
  std::shared_ptr<Core> core_;  // shared with threads that may be in a driver call after the sampler's end
  bool left_a_thread_ = false;
};

}  // namespace gpuman::gpu
