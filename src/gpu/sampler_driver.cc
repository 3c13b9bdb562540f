// What one of the sampler's threads does for all GPUs: it loads the driver, asks for its errors, and looks at
// how GPUs are split.
#include <algorithm>
#include <utility>

#include "gpu/sampler_core.h"
#include "gpu/xid_poll.h"

namespace gpuman::gpu {

using base::MonoTime;

// Runs with each slow tick: the driver reports no event when an instance is made or removed.
void Sampler::Core::ReadDivision(Lock& lock, const WorkerPtr& worker) {
  const MonoTime now = Now();
  division_due_ = NextMultiple(now, settings_.slow_period);
  const auto nvml = nvml_;
  looking_ = true;
  worker->in_call_since = now;
  lock.unlock();

  const auto seen = ReadDivisions(*nvml);

  lock.lock();
  looking_ = false;
  worker->in_call_since.reset();
  worker->stuck = false;
  if (stopping_ || nvml != nvml_ || driver_gone_ || !IsDividedAnew(divisions_, seen)) return;
  divided_anew_ = true;
  load_due_ = {};
}

void Sampler::Core::PollXids(Lock& lock, const WorkerPtr& worker) {
  const MonoTime now = Now();
  xids_due_ = NextMultiple(now, settings_.rest_period);
  auto poll = xids_;
  const auto nvml = nvml_;
  std::vector<std::string> uuids;
  if (!poll)
    for (const auto& [uuid, task] : tasks_) uuids.push_back(uuid);
  polling_ = true;
  worker->in_call_since = now;
  lock.unlock();

  if (!poll) poll = XidPoll::Make(nvml, uuids);
  const auto seen = poll ? poll->Take() : std::nullopt;

  lock.lock();
  polling_ = false;
  worker->in_call_since.reset();
  worker->stuck = false;
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

void Sampler::Core::LoadDriver(Lock& lock, const WorkerPtr& worker) {
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
    dropping = worker->tasks;
  }
  worker->loading = true;
  worker->in_call_since = Now();
  lock.unlock();

  // The old driver must be shut down before the new one is initialised; otherwise the same library stays
  // loaded.
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
  worker->loading = false;
  worker->in_call_since.reset();
  worker->stuck = false;
  load_due_ = Now() + settings_.retry_period;
  if (stopping_) return;
  driver_gone_ = divided_anew_ = false;
  divisions_ = DivisionsOf(inventory);
  incomplete_ = !inventory.problem.empty();
  // A driver without devices is released, so that a new one can be installed in its place.
  std::shared_ptr<const driver::Nvml> old = std::exchange(nvml_, nullptr);
  if (loaded && !inventory.gpus.empty()) TakeInventory(inventory, *loaded, old == *loaded, *worker);
  lock.unlock();
  loaded = nullptr;
  old.reset();
  nvml.reset();
  Deliver(inventory);
  lock.lock();
}

void Sampler::Core::TakeInventory(const Inventory& inventory, std::shared_ptr<const driver::Nvml> nvml,
                                  bool same_driver, Worker& worker) {
  nvml_ = std::move(nvml);
  std::map<std::string, TaskPtr> tasks;
  for (const auto& gpu : inventory.gpus) {
    auto& task = tasks[gpu.uuid];
    const auto known = tasks_.find(gpu.uuid);
    const bool is_new = known == tasks_.end();
    task = is_new ? std::make_shared<Task>(gpu.uuid, settings_.rest_period) : known->second;
    if (is_new) worker.tasks.push_back(task);
    if (same_driver && !is_new) continue;
    task->new_nvml = nvml_;
    task->nvml_changed = true;
    task->due = task->slow_due = {};
  }
  DropInstances(tasks);
  // A GPU that disappears while the driver stays keeps its task, which reports it lost.
  for (const auto& [uuid, task] : tasks_)
    if (!tasks.contains(uuid) && !task->dropped) tasks[uuid] = task;
  tasks_ = std::move(tasks);
  for (const auto& one : workers_) one->wake.notify_all();
}

// Drops the instances that are not in `kept`: no worker reads them any more.
void Sampler::Core::DropInstances(const std::map<std::string, TaskPtr>& kept) {
  for (const auto& [uuid, task] : tasks_) {
    if (!IsInstance(uuid) || kept.contains(uuid)) continue;
    task->dropped = true;
    for (const auto& worker : workers_) std::erase(worker->tasks, task);
  }
}

}  // namespace gpuman::gpu
