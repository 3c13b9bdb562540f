#include "gpu/sampler.h"

#include <algorithm>
#include <utility>

#include "gpu/sampler_core.h"

namespace gpuman::gpu {

using base::Millis;
using base::MonoTime;

MonoTime Sampler::Core::NextMultiple(MonoTime now, Millis period) {
  const MonoTime::duration step = std::max(period, Millis(1));
  return MonoTime((now.time_since_epoch() / step + 1) * step);
}

void Sampler::Core::Start() {
  const Lock lock(mutex_);
  AddWorker({}, true);
}

bool Sampler::Core::Stop() {
  Lock lock(mutex_);
  stopping_ = true;
  for (const auto& worker : workers_) worker->wake.notify_all();
  const auto done = [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const WorkerPtr& l) { return l->exited || l->stuck; });
  };
  exited_.wait_until(lock, Now() + settings_.call_limit, done);
  const std::vector<WorkerPtr> workers = std::exchange(workers_, {});
  bool left = false;
  for (const auto& worker : workers) {
    if (!worker->exited) {
      worker->thread.detach();
      left = true;
    }
  }
  std::vector<std::thread> finished;
  for (const auto& worker : workers)
    if (worker->thread.joinable()) finished.push_back(std::move(worker->thread));
  tasks_.clear();
  lock.unlock();
  for (auto& thread : finished) thread.join();
  const Lock closing(delivery_mutex_);
  closed_ = true;
  return left;
}

void Sampler::Core::Wake(const Task& task) {
  for (const auto& worker : workers_)
    for (const auto& one : worker->tasks)
      if (one.get() == &task) worker->wake.notify_all();
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

void Sampler::Core::WatchEnergy(const std::string& uuid, MonoTime until) {
  const Lock lock(mutex_);
  const auto it = tasks_.find(uuid);
  if (it == tasks_.end() || !callbacks_.on_energy) return;
  Task& task = *it->second;
  const bool watched = Now() < task.energy_until;
  task.energy_until = std::max(task.energy_until, until);
  if (watched) return;
  task.energy_due = {};
  Wake(task);
}

void Sampler::Core::PokeAll() {
  const Lock lock(mutex_);
  for (const auto& [uuid, task] : tasks_) task->poked = true;
  load_due_ = division_due_ = {};
  for (const auto& worker : workers_) worker->wake.notify_all();
}

void Sampler::Core::WantDetails(MonoTime until) {
  const Lock lock(mutex_);
  details_until_ = until;
}

base::Histogram Sampler::Core::Rounds() {
  const Lock lock(mutex_);
  return rounds_;
}

void Sampler::Core::Deliver(GpuSample sample) {
  const Lock delivery(delivery_mutex_);
  if (!closed_) callbacks_.on_sample(std::move(sample));
}

void Sampler::Core::Deliver(EnergySample seen) {
  const Lock delivery(delivery_mutex_);
  if (!closed_) callbacks_.on_energy(std::move(seen));
}

void Sampler::Core::Deliver(const XidEvent& xid) {
  const Lock delivery(delivery_mutex_);
  if (!closed_) callbacks_.on_xid(xid);
}

void Sampler::Core::Deliver(const Inventory& inventory) {
  const Lock delivery(delivery_mutex_);
  if (closed_ || reported_ == inventory) return;
  reported_ = inventory;
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
void Sampler::WatchEnergy(const std::string& uuid, MonoTime until) { core_->WatchEnergy(uuid, until); }
void Sampler::WantDetails(base::MonoTime until) { core_->WantDetails(until); }
base::Histogram Sampler::Rounds() const { return core_->Rounds(); }

}  // namespace gpuman::gpu
