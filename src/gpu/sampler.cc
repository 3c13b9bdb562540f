#include "gpu/sampler.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "driver/nvml.h"
#include "gpu/reader.h"

namespace gpuman::gpu {
namespace {

using base::Millis;
using base::MonoTime;

// So many slow rounds in a row are the GPU's fault, not the scheduler's.
constexpr int kSlowRounds = 3;
// And so many good ones mean that it was a passing trouble: many processes starting at once is one.
constexpr int kGoodRounds = 100;

MonoTime Now() { return std::chrono::steady_clock::now(); }

// The next multiple of `period` after `now`.
MonoTime NextMultiple(MonoTime now, Millis period) {
  const MonoTime::duration step = std::max(period, Millis(1));
  return MonoTime((now.time_since_epoch() / step + 1) * step);
}

// What a lane does in its turn for one GPU. The reader belongs to the lane's thread while `busy`, the rest is
// guarded by the core's mutex.
struct Task {
  Task(std::string uuid, Millis rest) : reader(std::move(uuid)), period(rest) {}
  Reader reader;
  Millis period;
  MonoTime due{};
  MonoTime slow_due{};
  bool poked = false;
  bool failing = false;
  bool unresponsive = false;
  std::shared_ptr<const driver::Nvml> new_nvml;  // to be given to the reader
  bool nvml_changed = false;
  bool doubted = false;  // an instance that failed once: it may be gone
  bool dropped = false;  // it is
  int slow_rounds = 0;   // in a row
  int good_rounds = 0;
};

struct Lane {
  std::thread thread;
  std::condition_variable wake;
  std::vector<std::shared_ptr<Task>> tasks;
  std::shared_ptr<Task> current;          // being read
  bool loading = false;                   // in the driver's loading
  std::optional<MonoTime> in_call_since;  // a driver call is under way
  bool stuck = false;                     // for longer than the limit
  bool exited = false;
  bool loads_driver = false;  // this lane's duty too
};

}  // namespace

class Sampler::Core : public std::enable_shared_from_this<Sampler::Core> {
 public:
  Core(SamplerSettings settings, SamplerCallbacks callbacks, LoadNvml load)
      : settings_(settings), callbacks_(std::move(callbacks)), load_(std::move(load)) {}

  void Start();
  bool Stop();  // true when a thread was left behind
  void SetPeriod(const std::string& uuid, Millis period);
  void Poke(const std::string& uuid);
  void PokeAll();
  void CheckWatchdog();
  void WantDetails(MonoTime until);
  base::Histogram Rounds();

 private:
  using Lock = std::unique_lock<std::mutex>;
  using LanePtr = std::shared_ptr<Lane>;
  using TaskPtr = std::shared_ptr<Task>;

  void Run(const LanePtr& lane);
  void RunTask(Lock& lock, const LanePtr& lane, const TaskPtr& task, MonoTime now);
  void LoadDriver(Lock& lock, const LanePtr& lane);
  void PollXids(Lock& lock, const LanePtr& lane);
  void LookAtDivision(Lock& lock, const LanePtr& lane);
  void DropInstances(const std::map<std::string, TaskPtr>& kept);
  void TakeInventory(const Inventory& inventory, std::shared_ptr<const driver::Nvml> nvml, bool same_driver,
                     Lane& lane);
  static TaskPtr MostOverdue(const Lane& lane, MonoTime now);
  std::optional<MonoTime> NextWake(const Lane& lane) const;
  void AddLane(std::vector<TaskPtr> tasks, bool loads_driver);
  void StartThread(const LanePtr& lane);
  void Isolate(Lane& lane, const TaskPtr& task);
  void Rejoin(Lane& lane, const TaskPtr& task);
  std::vector<std::thread> TakeFinishedLanes();
  void Wake(const Task& task);
  bool WantsXids() const { return nvml_ && !driver_gone_ && !polling_ && callbacks_.on_xid; }
  bool WantsDriver() const { return !nvml_ || driver_gone_ || incomplete_ || divided_anew_; }
  // Not where only instances are others: no error of a GPU is to be missed for that.
  bool WantsNewEvents() const { return !nvml_ || driver_gone_ || incomplete_; }
  bool WantsDivision() const { return nvml_ && !driver_gone_ && !looking_; }

  void Deliver(Sample sample);
  void Deliver(const XidSeen& xid);
  void Deliver(const Inventory& inventory);

  const SamplerSettings settings_;
  const SamplerCallbacks callbacks_;
  const LoadNvml load_;

  std::mutex mutex_;  // everything below, tasks and lanes included
  std::condition_variable exited_;
  bool stopping_ = false;
  std::vector<LanePtr> lanes_;
  std::map<std::string, TaskPtr> tasks_;
  std::shared_ptr<const driver::Nvml> nvml_;
  bool driver_gone_ = false;  // it was there, and must be loaded anew
  bool incomplete_ = false;   // some device could not be asked for its name
  MonoTime load_due_{};
  std::shared_ptr<XidPoll> xids_;  // nullptr: to be made anew
  MonoTime xids_due_{};
  bool polling_ = false;  // by one lane, which may be stuck in it
  Divisions divisions_;   // of the inventory (reader.h)
  MonoTime division_due_{};
  bool looking_ = false;       // at it; as polling_
  bool divided_anew_ = false;  // the inventory is out of date
  MonoTime details_until_{};
  base::Histogram rounds_{{0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 1}};

  std::mutex delivery_mutex_;  // held around callbacks; never taken with mutex_ held
  bool closed_ = false;
  std::optional<Inventory> told_;
};

void Sampler::Core::Start() {
  const Lock lock(mutex_);
  AddLane({}, true);
}

bool Sampler::Core::Stop() {
  Lock lock(mutex_);
  stopping_ = true;
  for (const auto& lane : lanes_) lane->wake.notify_all();
  const auto done = [this] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const LanePtr& l) { return l->exited || l->stuck; });
  };
  exited_.wait_until(lock, Now() + settings_.call_limit, done);
  const std::vector<LanePtr> lanes = std::exchange(lanes_, {});
  bool left = false;
  for (const auto& lane : lanes) {
    if (!lane->exited) {
      lane->thread.detach();
      left = true;
    }
  }
  std::vector<std::thread> finished;
  for (const auto& lane : lanes)
    if (lane->thread.joinable()) finished.push_back(std::move(lane->thread));
  tasks_.clear();
  lock.unlock();
  for (auto& thread : finished) thread.join();
  const Lock closing(delivery_mutex_);
  closed_ = true;
  return left;
}

void Sampler::Core::AddLane(std::vector<TaskPtr> tasks, bool loads_driver) {
  auto lane = std::make_shared<Lane>();
  lane->tasks = std::move(tasks);
  lane->loads_driver = loads_driver;
  lanes_.push_back(lane);
  StartThread(lane);
}

// When the system gives no thread, CheckWatchdog tries again.
void Sampler::Core::StartThread(const LanePtr& lane) {
  try {
    // The thread keeps core and lane alive for as long as it is in a call.
    lane->thread = std::thread([core = shared_from_this(), lane] { core->Run(lane); });
    lane->exited = false;
    pthread_setname_np(lane->thread.native_handle(), "gpuman-sampler");
  } catch (const std::system_error&) {
    lane->exited = true;
  }
}

// Leaves `task` to the thread of `lane`, and everything else the lane did to a new one.
void Sampler::Core::Isolate(Lane& lane, const TaskPtr& task) {
  std::vector<TaskPtr> others;
  for (auto& one : lane.tasks)
    if (one != task) others.push_back(std::move(one));
  const bool loads_driver = std::exchange(lane.loads_driver, false);
  lane.tasks = {task};
  if (!others.empty() || loads_driver) AddLane(std::move(others), loads_driver);
}

// Back to the lane that the others share: one thread that looks at all GPUs in one go costs least.
void Sampler::Core::Rejoin(Lane& lane, const TaskPtr& task) {
  const auto home = std::find_if(lanes_.begin(), lanes_.end(), [&](const LanePtr& one) {
    return one.get() != &lane && one->loads_driver && !one->stuck && !one->exited;
  });
  if (home == lanes_.end()) return;
  std::erase(lane.tasks, task);
  (*home)->tasks.push_back(task);
  (*home)->wake.notify_all();
}

// Lanes that have nothing to do any more, out of the list; their threads, to be joined without the mutex.
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
std::shared_ptr<Task> Sampler::Core::MostOverdue(const Lane& lane, MonoTime now) {
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
  // With another driver loaded meanwhile, what this one said does not count.
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
    // An instance that somebody removed is no GPU that was lost: what there is now is looked at first.
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

// With each slow tick: instances come and go without an event of the driver's.
void Sampler::Core::LookAtDivision(Lock& lock, const LanePtr& lane) {
  const MonoTime now = Now();
  division_due_ = NextMultiple(now, settings_.slow_period);
  const auto nvml = nvml_;
  looking_ = true;
  lane->in_call_since = now;
  lock.unlock();

  const auto seen = ReadDivisions(*nvml);

  lock.lock();
  looking_ = false;
  lane->in_call_since.reset();
  lane->stuck = false;
  if (stopping_ || nvml != nvml_ || driver_gone_ || !IsDividedAnew(divisions_, seen)) return;
  divided_anew_ = true;
  load_due_ = {};
}

void Sampler::Core::PollXids(Lock& lock, const LanePtr& lane) {
  const MonoTime now = Now();
  xids_due_ = NextMultiple(now, settings_.rest_period);
  auto poll = xids_;
  const auto nvml = nvml_;
  std::vector<std::string> uuids;
  if (!poll)
    for (const auto& [uuid, task] : tasks_) uuids.push_back(uuid);
  polling_ = true;
  lane->in_call_since = now;
  lock.unlock();

  if (!poll) poll = XidPoll::Make(nvml, uuids);
  const auto seen = poll ? poll->Take() : std::nullopt;

  lock.lock();
  polling_ = false;
  lane->in_call_since.reset();
  lane->stuck = false;
  if (stopping_) return;
  if (nvml == nvml_ && !driver_gone_) xids_ = seen ? poll : nullptr;
  if (!seen) {
    xids_due_ = now + settings_.retry_period;
    return;
  }
  lock.unlock();
  for (const auto& xid : *seen) Deliver(xid);
  lock.lock();
}

void Sampler::Core::LoadDriver(Lock& lock, const LanePtr& lane) {
  load_due_ = Now() + settings_.retry_period;
  std::shared_ptr<const driver::Nvml> nvml = nvml_;
  const bool anew = driver_gone_;
  std::vector<TaskPtr> dropping;
  if (WantsNewEvents()) {
    xids_.reset();
    xids_due_ = {};
  }
  if (anew) {
    nvml_.reset();
    for (const auto& [uuid, task] : tasks_) {
      task->new_nvml.reset();
      task->nvml_changed = true;
    }
    dropping = lane->tasks;
  }
  lane->loading = true;
  lane->in_call_since = Now();
  lock.unlock();

  // The old driver must be shut down before the new one is initialised, or the library stays as it is.
  for (const auto& task : dropping) task->reader.SetNvml(nullptr);
  if (anew) nvml.reset();
  Inventory inventory;
  base::Result<std::shared_ptr<const driver::Nvml>> loaded = nvml;
  if (!nvml) loaded = load_();
  if (loaded)
    inventory = ReadInventory(**loaded);
  else
    inventory.problem = loaded.error().message;

  lock.lock();
  lane->loading = false;
  lane->in_call_since.reset();
  lane->stuck = false;
  load_due_ = Now() + settings_.retry_period;
  if (stopping_) return;
  driver_gone_ = divided_anew_ = false;
  divisions_ = DivisionsOf(inventory);
  incomplete_ = !inventory.problem.empty();
  // A driver without devices is let go, so that a new one can be installed in its place.
  std::shared_ptr<const driver::Nvml> old = std::exchange(nvml_, nullptr);
  if (loaded && !inventory.gpus.empty()) TakeInventory(inventory, *loaded, old == *loaded, *lane);
  lock.unlock();
  loaded = nullptr;
  old.reset();
  nvml.reset();
  Deliver(inventory);
  lock.lock();
}

void Sampler::Core::TakeInventory(const Inventory& inventory, std::shared_ptr<const driver::Nvml> nvml,
                                  bool same_driver, Lane& lane) {
  nvml_ = std::move(nvml);
  std::map<std::string, TaskPtr> tasks;
  for (const auto& gpu : inventory.gpus) {
    auto& task = tasks[gpu.uuid];
    const auto known = tasks_.find(gpu.uuid);
    const bool is_new = known == tasks_.end();
    task = is_new ? std::make_shared<Task>(gpu.uuid, settings_.rest_period) : known->second;
    if (is_new) lane.tasks.push_back(task);
    if (same_driver && !is_new) continue;
    task->new_nvml = nvml_;
    task->nvml_changed = true;
    task->due = task->slow_due = {};
  }
  DropInstances(tasks);
  // A GPU that is gone while the driver stays keeps its task, which reports it lost.
  for (const auto& [uuid, task] : tasks_)
    if (!tasks.contains(uuid) && !task->dropped) tasks[uuid] = task;
  tasks_ = std::move(tasks);
  for (const auto& one : lanes_) one->wake.notify_all();
}

// Those that are not among `kept`: nobody looks at them any more.
void Sampler::Core::DropInstances(const std::map<std::string, TaskPtr>& kept) {
  for (const auto& [uuid, task] : tasks_) {
    if (!IsInstance(uuid) || kept.contains(uuid)) continue;
    task->dropped = true;
    for (const auto& lane : lanes_) std::erase(lane->tasks, task);
  }
}

void Sampler::Core::Wake(const Task& task) {
  for (const auto& lane : lanes_)
    for (const auto& one : lane->tasks)
      if (one.get() == &task) lane->wake.notify_all();
}

void Sampler::Core::SetPeriod(const std::string& uuid, Millis period) {
  const Lock lock(mutex_);
  const auto it = tasks_.find(uuid);
  if (it == tasks_.end()) return;
  Task& task = *it->second;
  task.period = std::max(period, Millis(1));
  const MonoTime due = NextMultiple(Now(), task.period);
  if (task.failing || due >= task.due) return;
  task.due = due;
  Wake(task);
}

void Sampler::Core::Poke(const std::string& uuid) {
  const Lock lock(mutex_);
  const auto it = tasks_.find(uuid);
  if (it == tasks_.end()) return;
  it->second->poked = true;
  Wake(*it->second);
}

void Sampler::Core::PokeAll() {
  const Lock lock(mutex_);
  for (const auto& [uuid, task] : tasks_) task->poked = true;
  load_due_ = division_due_ = {};
  for (const auto& lane : lanes_) lane->wake.notify_all();
}

void Sampler::Core::WantDetails(MonoTime until) {
  const Lock lock(mutex_);
  details_until_ = until;
}

base::Histogram Sampler::Core::Rounds() {
  const Lock lock(mutex_);
  return rounds_;
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
        // Whoever loads the driver must not hold up GPUs that a working one still serves.
        if (!lane->tasks.empty()) AddLane(std::exchange(lane->tasks, {}), false);
        continue;
      }
      const TaskPtr task = lane->current;
      if (!task) {  // asking for errors: what else it did goes on without it
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

void Sampler::Core::Deliver(Sample sample) {
  const Lock delivery(delivery_mutex_);
  if (!closed_) callbacks_.on_sample(std::move(sample));
}

void Sampler::Core::Deliver(const XidSeen& xid) {
  const Lock delivery(delivery_mutex_);
  if (!closed_) callbacks_.on_xid(xid);
}

void Sampler::Core::Deliver(const Inventory& inventory) {
  const Lock delivery(delivery_mutex_);
  if (closed_ || told_ == inventory) return;
  told_ = inventory;
  callbacks_.on_inventory(inventory);
}

base::Result<std::shared_ptr<const driver::Nvml>> Sampler::LoadSystemNvml() {
  auto loaded = driver::Nvml::Load();
  if (!loaded) return tl::unexpected<base::Error>(std::move(loaded.error()));
  return std::shared_ptr<const driver::Nvml>(std::move(*loaded));
}

Sampler::Sampler(SamplerSettings settings, SamplerCallbacks callbacks, LoadNvml load)
    : core_(std::make_shared<Core>(settings, std::move(callbacks), std::move(load))) {}

Sampler::~Sampler() { Stop(); }

void Sampler::Start() { core_->Start(); }
void Sampler::Stop() { left_a_thread_ = core_->Stop() || left_a_thread_; }
void Sampler::SetPeriod(const std::string& uuid, base::Millis period) { core_->SetPeriod(uuid, period); }
void Sampler::Poke(const std::string& uuid) { core_->Poke(uuid); }
void Sampler::PokeAll() { core_->PokeAll(); }
void Sampler::CheckWatchdog() { core_->CheckWatchdog(); }
void Sampler::WantDetails(base::MonoTime until) { core_->WantDetails(until); }
base::Histogram Sampler::Rounds() const { return core_->Rounds(); }

}  // namespace gpuman::gpu
