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
// This many good rounds mean that the trouble has passed; many processes that start at once are such a
// trouble.
constexpr int kGoodRounds = 100;

}  // namespace

void Sampler::Core::AddLane(std::vector<TaskPtr> tasks, bool loads_driver) {
  auto lane = std::make_shared<Lane>();
  lane->tasks = std::move(tasks);
  lane->loads_driver = loads_driver;
  lanes_.push_back(lane);
  StartThread(lane);
}

// If the system gives no thread, CheckWatchdog tries again.
void Sampler::Core::StartThread(const LanePtr& lane) {
  try {
    // The thread keeps core and lane alive while it is in a call.
    lane->thread = std::thread([core = shared_from_this(), lane] { core->Run(lane); });
    lane->exited = false;
    pthread_setname_np(lane->thread.native_handle(), "gpuman-sampler");
  } catch (const std::system_error&) {
    lane->exited = true;
  }
}

// Leaves `task` to the thread of `lane`, and gives everything else of the lane to a new one.
void Sampler::Core::Isolate(Lane& lane, const TaskPtr& task) {
  std::vector<TaskPtr> others;
  for (auto& one : lane.tasks)
    if (one != task) others.push_back(std::move(one));
  const bool loads_driver = std::exchange(lane.loads_driver, false);
  lane.tasks = {task};
  if (!others.empty() || loads_driver) AddLane(std::move(others), loads_driver);
}

// Moves `task` back to the lane that the others share: one thread that reads all GPUs in one go costs least.
void Sampler::Core::Rejoin(Lane& lane, const TaskPtr& task) {
  const auto home = std::find_if(lanes_.begin(), lanes_.end(), [&](const LanePtr& one) {
    return one.get() != &lane && one->loads_driver && !one->stuck && !one->exited;
  });
  if (home == lanes_.end()) return;
  std::erase(lane.tasks, task);
  (*home)->tasks.push_back(task);
  (*home)->wake.notify_all();
}

// Removes the lanes that have nothing to do any more from the list, and returns their threads. The caller
// joins them without the mutex.
std::vector<std::thread> Sampler::Core::TakeFinishedLanes() {
  std::vector<std::thread> finished;
  std::erase_if(lanes_, [&](const LanePtr& lane) {
    if (!lane->exited || !lane->tasks.empty() || lane->loads_driver) return false;
    if (lane->thread.joinable()) finished.push_back(std::move(lane->thread));
    return true;
  });
  return finished;
}

void Sampler::Core::Run(const LanePtr& lane) {
  Lock lock(mutex_);
  while (!stopping_) {
    const MonoTime now = Now();
    if (lane->loads_driver && WantsDriver() && load_due_ <= now) {
      LoadDriver(lock, lane);
      continue;
    }
    if (lane->loads_driver && WantsXids() && xids_due_ <= now) {
      PollXids(lock, lane);
      continue;
    }
    if (lane->loads_driver && WantsDivision() && division_due_ <= now) {
      LookAtDivision(lock, lane);
      continue;
    }
    if (const TaskPtr task = MostOverdue(*lane, now)) {
      RunTask(lock, lane, task, now);
      continue;
    }
    if (lane->tasks.empty() && !lane->loads_driver) break;
    if (const auto wake = NextWake(*lane))
      lane->wake.wait_until(lock, *wake);
    else
      lane->wake.wait(lock);
  }
  lane->exited = true;
  exited_.notify_all();
}

// A GPU that is always due must not starve the others.
auto Sampler::Core::MostOverdue(const Lane& lane, MonoTime now) -> TaskPtr {
  const auto due = [](const TaskPtr& task) { return task->poked ? MonoTime{} : task->due; };
  const auto first = std::min_element(lane.tasks.begin(), lane.tasks.end(),
                                      [&](const TaskPtr& a, const TaskPtr& b) { return due(a) < due(b); });
  return first != lane.tasks.end() && due(*first) <= now ? *first : nullptr;
}

std::optional<MonoTime> Sampler::Core::NextWake(const Lane& lane) const {
  std::optional<MonoTime> wake;
  if (lane.loads_driver && WantsDriver()) wake = load_due_;
  if (lane.loads_driver && WantsXids() && (!wake || xids_due_ < *wake)) wake = xids_due_;
  if (lane.loads_driver && WantsDivision() && (!wake || division_due_ < *wake)) wake = division_due_;
  for (const auto& task : lane.tasks)
    if (!wake || task->due < *wake) wake = task->due;
  return wake;
}

void Sampler::Core::RunTask(Lock& lock, const LanePtr& lane, const TaskPtr& task, MonoTime now) {
  const bool slow = task->poked || task->slow_due <= now;
  const bool close = task->period < settings_.rest_period;
  const Depth depth = task->poked || (slow && close) ? Depth::kAll
                      : slow                         ? Depth::kReadings
                      : close                        ? Depth::kProcesses
                                                     : Depth::kMemory;
  task->poked = false;
  if (slow) task->slow_due = NextMultiple(now, settings_.slow_period);
  task->due = NextMultiple(now, task->period);
  const auto details = now >= details_until_ ? DetailsWanted::kNone
                       : close               ? DetailsWanted::kQuick
                                             : DetailsWanted::kAll;
  const bool change = std::exchange(task->nvml_changed, false);
  auto nvml = std::exchange(task->new_nvml, nullptr);
  lane->current = task;
  lane->in_call_since = now;
  lock.unlock();

  if (change) task->reader.SetNvml(std::move(nvml));
  auto sample = task->reader.Read(now, depth, details);

  lock.lock();
  lane->current.reset();
  lane->in_call_since.reset();
  lane->stuck = false;
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
      for (const auto& one : lanes_) one->wake.notify_all();
    }
  }
  const MonoTime::duration took = Now() - now;
  if (!task->failing) rounds_.Observe(std::chrono::duration<double>(took).count());
  const bool was_slow = took > settings_.slow_round;
  task->slow_rounds = was_slow ? task->slow_rounds + 1 : 0;
  task->good_rounds = was_slow || task->failing ? 0 : task->good_rounds + 1;
  if (task->slow_rounds >= kSlowRounds && (lane->tasks.size() > 1 || lane->loads_driver))
    Isolate(*lane, task);
  else if (task->good_rounds >= kGoodRounds && !lane->loads_driver)
    Rejoin(*lane, task);
  if (is_first_failure && !driver_gone_) {
    // A removed instance is not a lost GPU: the division is looked at first.
    task->due = task->slow_due = Now() + settings_.rest_period;
    division_due_ = {};
    for (const auto& one : lanes_) one->wake.notify_all();
    return;
  }
  if (!sample) return;
  lock.unlock();
  Deliver(std::move(*sample));
  lock.lock();
}

void Sampler::Core::CheckWatchdog() {
  std::vector<Sample> unresponsive;
  std::vector<std::thread> finished;
  bool loading_hangs = false;
  {
    const Lock lock(mutex_);
    const MonoTime now = Now();
    finished = TakeFinishedLanes();
    const std::vector<LanePtr> lanes = lanes_;
    for (const auto& lane : lanes) {
      if (lane->exited && !lane->thread.joinable()) StartThread(lane);
      if (lane->stuck || !lane->in_call_since || now - *lane->in_call_since < settings_.call_limit) continue;
      lane->stuck = true;
      if (lane->loading) {
        loading_hangs = true;
        // The lane that loads the driver must not delay GPUs that a working driver still serves.
        if (!lane->tasks.empty()) AddLane(std::exchange(lane->tasks, {}), false);
        continue;
      }
      const TaskPtr task = lane->current;
      if (!task) {  // stuck in asking for errors or instances: another lane takes the rest
        AddLane(std::exchange(lane->tasks, {}), std::exchange(lane->loads_driver, false));
        continue;
      }
      task->unresponsive = true;
      Isolate(*lane, task);
      Sample sample;
      sample.uuid = task->reader.uuid();
      sample.taken_at = now;
      sample.state = GpuState::kUnresponsive;
      sample.error =
          fmt::format("a driver call has not come back for {}",
                      base::FormatDuration(std::chrono::duration_cast<Millis>(now - *lane->in_call_since)));
      unresponsive.push_back(std::move(sample));
    }
  }
  for (auto& thread : finished) thread.join();
  for (auto& sample : unresponsive) Deliver(std::move(sample));
  if (!loading_hangs) return;
  Inventory inventory;
  {
    const Lock delivery(delivery_mutex_);
    if (told_) inventory = *told_;
  }
  inventory.problem = "the NVIDIA driver does not answer";
  Deliver(inventory);
}

}  // namespace gpuman::gpu
