// The sampler's threads, and which of them reads which GPU.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "gpu/sampler_core.h"

namespace gpuman::gpu {

using base::Millis;
using base::MonoTime;

namespace {

// This many slow rounds in a row are the GPU's fault, not the scheduler's.
constexpr int kSlowRounds = 3;
// This many good rounds mean that the cause of slow rounds has passed; many processes that start at once are
// such a cause.
constexpr int kGoodRounds = 100;

}  // namespace

void Sampler::Core::AddWorker(std::vector<TaskPtr> tasks, bool loads_driver) {
  auto worker = std::make_shared<Worker>();
  worker->tasks = std::move(tasks);
  worker->loads_driver = loads_driver;
  workers_.push_back(worker);
  StartThread(worker);
}

// If the system gives no thread, CheckWatchdog tries again.
void Sampler::Core::StartThread(const WorkerPtr& worker) {
  try {
    // The thread keeps core and worker alive while it is in a call.
    worker->thread = std::thread([core = shared_from_this(), worker] { core->Run(worker); });
    worker->exited = false;
    pthread_setname_np(worker->thread.native_handle(), "gpuman-sampler");
  } catch (const std::system_error&) {
    worker->exited = true;
  }
}

// Leaves `task` to the thread of `worker`, and gives everything else of the worker to a new one.
void Sampler::Core::Isolate(Worker& worker, const TaskPtr& task) {
  std::vector<TaskPtr> others;
  for (auto& one : worker.tasks)
    if (one != task) others.push_back(std::move(one));
  const bool loads_driver = std::exchange(worker.loads_driver, false);
  worker.tasks = {task};
  if (!others.empty() || loads_driver) AddWorker(std::move(others), loads_driver);
}

// Moves `task` back to the worker that the others share: one thread for all GPUs costs least.
void Sampler::Core::Rejoin(Worker& worker, const TaskPtr& task) {
  const auto home = std::find_if(workers_.begin(), workers_.end(), [&](const WorkerPtr& one) {
    return one.get() != &worker && one->loads_driver && !one->stuck && !one->exited;
  });
  if (home == workers_.end()) return;
  std::erase(worker.tasks, task);
  (*home)->tasks.push_back(task);
  (*home)->wake.notify_all();
}

// Removes the workers that have nothing to do any more from the list, and returns their threads. The caller
// joins them without the mutex.
std::vector<std::thread> Sampler::Core::TakeFinishedWorkers() {
  std::vector<std::thread> finished;
  std::erase_if(workers_, [&](const WorkerPtr& worker) {
    if (!worker->exited || !worker->tasks.empty() || worker->loads_driver) return false;
    if (worker->thread.joinable()) finished.push_back(std::move(worker->thread));
    return true;
  });
  return finished;
}

void Sampler::Core::Run(const WorkerPtr& worker) {
  Lock lock(mutex_);
  while (!stopping_) {
    const MonoTime now = Now();
    if (worker->loads_driver && WantsDriver() && load_due_ <= now) {
      LoadDriver(lock, worker);
      continue;
    }
    if (worker->loads_driver && WantsXids() && xids_due_ <= now) {
      PollXids(lock, worker);
      continue;
    }
    if (worker->loads_driver && WantsDivision() && division_due_ <= now) {
      ReadDivision(lock, worker);
      continue;
    }
    if (const TaskPtr task = EnergyDue(*worker, now)) {
      ReadEnergy(lock, worker, task, now);
      continue;
    }
    if (const TaskPtr task = MostOverdue(*worker, now)) {
      RunTask(lock, worker, task, now);
      continue;
    }
    if (worker->tasks.empty() && !worker->loads_driver) break;
    if (const auto wake = NextWake(*worker))
      worker->wake.wait_until(lock, *wake);
    else
      worker->wake.wait(lock);
  }
  worker->exited = true;
  exited_.notify_all();
}

auto Sampler::Core::EnergyDue(const Worker& worker, MonoTime now) -> TaskPtr {
  const auto due = std::find_if(worker.tasks.begin(), worker.tasks.end(), [&](const TaskPtr& task) {
    return task->WatchesEnergy() && task->energy_due <= now;
  });
  return due == worker.tasks.end() ? nullptr : *due;
}

void Sampler::Core::ReadEnergy(Lock& lock, const WorkerPtr& worker, const TaskPtr& task, MonoTime now) {
  task->energy_due = NextMultiple(now, settings_.energy_period);
  worker->current = task;
  worker->in_call_since = now;
  lock.unlock();

  const auto reading = task->reader.ReadEnergy(now);

  lock.lock();
  worker->current.reset();
  worker->in_call_since.reset();
  worker->stuck = false;
  if (std::exchange(task->unresponsive, false)) task->poked = true;
  if (stopping_ || task->dropped || !reading) return;
  lock.unlock();
  Deliver(EnergySample{task->reader.uuid(), *reading});
  lock.lock();
}

// A GPU that is always due must not starve the others.
auto Sampler::Core::MostOverdue(const Worker& worker, MonoTime now) -> TaskPtr {
  const auto due = [](const TaskPtr& task) { return task->poked ? MonoTime{} : task->due; };
  const auto first = std::min_element(worker.tasks.begin(), worker.tasks.end(),
                                      [&](const TaskPtr& a, const TaskPtr& b) { return due(a) < due(b); });
  return first != worker.tasks.end() && due(*first) <= now ? *first : nullptr;
}

std::optional<MonoTime> Sampler::Core::NextWake(const Worker& worker) const {
  std::optional<MonoTime> wake;
  if (worker.loads_driver && WantsDriver()) wake = load_due_;
  if (worker.loads_driver && WantsXids() && (!wake || xids_due_ < *wake)) wake = xids_due_;
  if (worker.loads_driver && WantsDivision() && (!wake || division_due_ < *wake)) wake = division_due_;
  for (const auto& task : worker.tasks) {
    if (!wake || task->due < *wake) wake = task->due;
    if (task->WatchesEnergy() && task->energy_due < *wake) wake = task->energy_due;
  }
  return wake;
}

auto Sampler::Core::PlanRead(Task& task, MonoTime now) const -> PlannedRead {
  const bool slow = task.poked || task.slow_due <= now;
  const bool close = task.period < settings_.rest_period;
  const ReadDepth depth = task.poked || (slow && close) ? ReadDepth::kAll
                          : slow                        ? ReadDepth::kReadings
                          : close                       ? ReadDepth::kProcesses
                                                        : ReadDepth::kMemory;
  task.poked = false;
  if (slow) task.slow_due = NextMultiple(now, settings_.slow_period);
  task.due = NextMultiple(now, task.period);
  const auto details = now >= details_until_ ? DetailsWanted::kNone
                       : close               ? DetailsWanted::kQuick
                                             : DetailsWanted::kAll;
  return {depth, details};
}

void Sampler::Core::RunTask(Lock& lock, const WorkerPtr& worker, const TaskPtr& task, MonoTime now) {
  const auto [depth, details] = PlanRead(*task, now);
  const bool change = std::exchange(task->nvml_changed, false);
  auto nvml = std::exchange(task->new_nvml, nullptr);
  worker->current = task;
  worker->in_call_since = now;
  lock.unlock();

  if (change) task->reader.SetNvml(std::move(nvml));
  auto sample = task->reader.Read(now, depth, details);

  lock.lock();
  worker->current.reset();
  worker->in_call_since.reset();
  worker->stuck = false;
  const bool was_unresponsive = std::exchange(task->unresponsive, false);
  if (stopping_ || task->dropped) return;
  if (was_unresponsive && !sample) task->poked = true;
  task->failing = task->reader.failed();
  const bool is_first_failure =
      task->failing && IsInstance(task->reader.uuid()) && !std::exchange(task->doubted, true);
  if (!task->failing) task->doubted = false;
  // If another driver was loaded meanwhile, the answer of this one does not count.
  if (task->failing && !task->nvml_changed) {
    const bool gone = task->reader.driver_gone() || task->reader.device_gone();
    task->due = task->slow_due = Now() + (gone ? settings_.retry_period : settings_.slow_period);
    if (task->reader.driver_gone()) {
      driver_gone_ = true;
      for (const auto& one : workers_) one->wake.notify_all();
    }
  }
  const MonoTime::duration took = Now() - now;
  if (!task->failing) rounds_.Observe(std::chrono::duration<double>(took).count());
  const bool was_slow = took > settings_.slow_round;
  task->slow_rounds = was_slow ? task->slow_rounds + 1 : 0;
  task->good_rounds = was_slow || task->failing ? 0 : task->good_rounds + 1;
  if (task->slow_rounds >= kSlowRounds && (worker->tasks.size() > 1 || worker->loads_driver))
    Isolate(*worker, task);
  else if (task->good_rounds >= kGoodRounds && !worker->loads_driver)
    Rejoin(*worker, task);
  if (is_first_failure && !driver_gone_) {
    // A removed instance is not a lost GPU: the division is looked at first.
    task->due = task->slow_due = Now() + settings_.rest_period;
    division_due_ = {};
    for (const auto& one : workers_) one->wake.notify_all();
    return;
  }
  if (!sample) return;
  lock.unlock();
  Deliver(std::move(*sample));
  lock.lock();
}

void Sampler::Core::CheckWatchdog() {
  std::vector<GpuSample> unresponsive;
  std::vector<std::thread> finished;
  bool loading_hangs = false;
  {
    const Lock lock(mutex_);
    const MonoTime now = Now();
    finished = TakeFinishedWorkers();
    const std::vector<WorkerPtr> workers = workers_;
    for (const auto& worker : workers) {
      if (worker->exited && !worker->thread.joinable()) StartThread(worker);
      if (worker->stuck || !worker->in_call_since || now - *worker->in_call_since < settings_.call_limit)
        continue;
      worker->stuck = true;
      if (worker->loading) {
        loading_hangs = true;
        // The worker that loads the driver must not delay GPUs that a working driver still serves.
        if (!worker->tasks.empty()) AddWorker(std::exchange(worker->tasks, {}), false);
        continue;
      }
      const TaskPtr task = worker->current;
      if (!task) {  // stuck in asking for errors or instances: another worker takes the rest
        AddWorker(std::exchange(worker->tasks, {}), std::exchange(worker->loads_driver, false));
        continue;
      }
      task->unresponsive = true;
      Isolate(*worker, task);
      GpuSample sample;
      sample.uuid = task->reader.uuid();
      sample.taken_at = now;
      sample.state = GpuReachability::kUnresponsive;
      sample.error =
          fmt::format("a driver call has not come back for {}",
                      base::FormatDuration(std::chrono::duration_cast<Millis>(now - *worker->in_call_since)));
      unresponsive.push_back(std::move(sample));
    }
  }
  for (auto& thread : finished) thread.join();
  for (auto& sample : unresponsive) Deliver(std::move(sample));
  if (!loading_hangs) return;
  Inventory inventory;
  {
    const Lock delivery(delivery_mutex_);
    if (reported_) inventory = *reported_;
  }
  inventory.problem = "the NVIDIA driver does not answer";
  Deliver(inventory);
}

}  // namespace gpuman::gpu
