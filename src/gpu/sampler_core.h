// Internal to the sampler: its state and its threads.
//
// Each GPU is a task, and each thread is a worker with tasks. One worker has all tasks, and it also loads the
// driver, asks for its errors and looks at the instances. A task whose reads are slow or hang gets a worker
// of its own, and returns when it is quick again. One mutex guards everything, and no thread holds it during
// a driver call. The threads share the core: a thread that is stuck in a call may outlive the sampler.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "driver/nvml.h"
#include "gpu/reader.h"
#include "gpu/sampler.h"

namespace gpuman::gpu {

class Sampler::Core : public std::enable_shared_from_this<Sampler::Core> {
 public:
  Core(SamplerSettings settings, SamplerCallbacks callbacks, LoadNvml load)
      : settings_(settings), callbacks_(std::move(callbacks)), load_(std::move(load)) {}

  void Start();
  bool Stop();  // true: a thread was left behind
  void SetPeriod(const std::string& uuid, base::Millis period);
  void Poke(const std::string& uuid);
  void PokeAll();
  void CheckWatchdog();
  void WatchEnergy(const std::string& uuid, base::MonoTime until);
  void WantDetails(base::MonoTime until);
  base::Histogram Rounds();

 private:
  struct Task;
  struct Worker;
  using Lock = std::unique_lock<std::mutex>;
  using WorkerPtr = std::shared_ptr<Worker>;
  using TaskPtr = std::shared_ptr<Task>;

  static base::MonoTime Now() { return std::chrono::steady_clock::now(); }
  static base::MonoTime NextMultiple(base::MonoTime now, base::Millis period);  // the next one after `now`

  // sampler_workers.cc: the threads, and which GPUs each of them reads.
  void Run(const WorkerPtr& worker);
  // How much the next read of a GPU reads. Sets when the task is due again.
  struct PlannedRead {
    ReadDepth depth;
    DetailsWanted details;
  };
  PlannedRead PlanRead(Task& task, base::MonoTime now) const;
  void RunTask(Lock& lock, const WorkerPtr& worker, const TaskPtr& task, base::MonoTime now);
  void ReadEnergy(Lock& lock, const WorkerPtr& worker, const TaskPtr& task, base::MonoTime now);
  static TaskPtr EnergyDue(const Worker& worker, base::MonoTime now);
  static TaskPtr MostOverdue(const Worker& worker, base::MonoTime now);
  std::optional<base::MonoTime> NextWake(const Worker& worker) const;
  void AddWorker(std::vector<TaskPtr> tasks, bool loads_driver);
  void StartThread(const WorkerPtr& worker);
  void Isolate(Worker& worker, const TaskPtr& task);
  void Rejoin(Worker& worker, const TaskPtr& task);
  std::vector<std::thread> TakeFinishedWorkers();

  // sampler_driver.cc: what one worker does for all GPUs.
  void LoadDriver(Lock& lock, const WorkerPtr& worker);
  void PollXids(Lock& lock, const WorkerPtr& worker);
  void ReadDivision(Lock& lock, const WorkerPtr& worker);
  void DropInstances(const std::map<std::string, TaskPtr>& kept);
  void TakeInventory(const Inventory& inventory, std::shared_ptr<const driver::Nvml> nvml, bool same_driver,
                     Worker& worker);

  void Wake(const Task& task);
  bool WantsXids() const { return nvml_ && !driver_gone_ && !polling_ && callbacks_.on_xid; }
  bool WantsDriver() const { return !nvml_ || driver_gone_ || incomplete_ || divided_anew_; }
  // False if only the instances changed: no error of a GPU may be missed for that.
  bool WantsNewEvents() const { return !nvml_ || driver_gone_ || incomplete_; }
  bool WantsDivision() const { return nvml_ && !driver_gone_ && !looking_; }

  void Deliver(GpuSample sample);
  void Deliver(EnergySample seen);
  void Deliver(const XidEvent& xid);
  void Deliver(const Inventory& inventory);

  const SamplerSettings settings_;
  const SamplerCallbacks callbacks_;
  const LoadNvml load_;

  std::mutex mutex_;  // guards everything below, tasks and workers included
  std::condition_variable exited_;
  bool stopping_ = false;
  std::vector<WorkerPtr> workers_;
  std::map<std::string, TaskPtr> tasks_;
  std::shared_ptr<const driver::Nvml> nvml_;
  bool driver_gone_ = false;  // the driver was there, and must be loaded again
  bool incomplete_ = false;   // some device did not report its name
  base::MonoTime load_due_{};
  std::shared_ptr<XidPoll> xids_;  // nullptr: must be made again
  base::MonoTime xids_due_{};
  bool polling_ = false;  // by one worker, which may be stuck in it
  Divisions divisions_;   // of the inventory (reader.h)
  base::MonoTime division_due_{};
  bool looking_ = false;       // one worker looks at it, like polling_
  bool divided_anew_ = false;  // the inventory is out of date
  base::MonoTime details_until_{};
  base::Histogram rounds_{{0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 1}};

  std::mutex delivery_mutex_;  // held around callbacks; never taken with mutex_ held
  bool closed_ = false;
  std::optional<Inventory> reported_;
};

// What a worker does in its turn for one GPU. While the worker's thread reads, it owns the reader; the core's
// mutex guards everything else.
struct Sampler::Core::Task {
  Task(std::string uuid, base::Millis rest) : reader(std::move(uuid)), period(rest) {}
  Reader reader;
  base::Millis period;
  base::MonoTime due{};
  base::MonoTime slow_due{};
  base::MonoTime energy_until{}, energy_due{};
  bool WatchesEnergy() const { return !failing && !nvml_changed && energy_due < energy_until; }
  bool poked = false;
  bool failing = false;
  bool unresponsive = false;
  std::shared_ptr<const driver::Nvml> new_nvml;  // the reader's next driver
  bool nvml_changed = false;
  bool doubted = false;  // an instance whose reading has failed once: it may be gone
  bool dropped = false;  // the instance is gone
  int slow_rounds = 0;   // in a row
  int good_rounds = 0;
};

struct Sampler::Core::Worker {
  std::thread thread;
  std::condition_variable wake;
  std::vector<std::shared_ptr<Task>> tasks;
  std::shared_ptr<Task> current;                // is being read
  bool loading = false;                         // is loading the driver
  std::optional<base::MonoTime> in_call_since;  // a driver call is under way
  bool stuck = false;                           // the call takes longer than the limit
  bool exited = false;
  bool loads_driver = false;  // this worker also does the driver's work for all GPUs
};

}  // namespace gpuman::gpu
