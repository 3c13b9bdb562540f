// One change of GPUs' settings, from the first reading to the answer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "daemon/device/change.h"
#include "daemon/device/device_settings_manager.h"
#include "device/reader.h"

namespace gpuman::daemon {
namespace {

using base::ErrorCode;

const char* kSlowHint =
    "gpuman health shows whether the GPU is well; what was changed is undone when it answers";

std::string StepText(const device::DevicePlanStep& step) {
  return fmt::format("{} to {}", NameOf(step.setting), Format(step.setting, step.to));
}

bool Contains(const std::vector<gpu::Gpu>& gpus, const std::set<std::string>& uuids) {
  return std::any_of(gpus.begin(), gpus.end(), [&](const gpu::Gpu& gpu) { return uuids.contains(gpu.uuid); });
}

}  // namespace

void DeviceSettingsManager::Run(DeviceTask task, Done done) {
  auto change = std::make_unique<Change>();
  change->id = ++last_id_;
  change->task = std::move(task);
  change->done = std::move(done);
  waiting_.push_back(std::move(change));
  StartWaiting();
}

// Starts waiting changes in the order in which they were asked for. No later change overtakes an earlier
// change that waits for the same GPU.
void DeviceSettingsManager::StartWaiting() {
  std::set<std::string> taken;
  for (const auto& [uuid, device] : devices_)
    if (device.busy && !device.stuck_since) taken.insert(uuid);
  std::deque<std::unique_ptr<Change>> rest;
  for (auto& change : std::exchange(waiting_, {})) {
    if (!Contains(change->task.gpus, taken)) {
      for (const auto& gpu : change->task.gpus) taken.insert(gpu.uuid);
      Begin(std::move(change));
      continue;
    }
    for (const auto& gpu : change->task.gpus) taken.insert(gpu.uuid);
    rest.push_back(std::move(change));
  }
  // Changes that were begun may have added more.
  std::move(waiting_.begin(), waiting_.end(), std::back_inserter(rest));
  waiting_ = std::move(rest);
}

void DeviceSettingsManager::Begin(std::unique_ptr<Change> owned) {
  const auto id = owned->id;
  const std::shared_ptr<Change> change = std::move(owned);
  changes_[id] = change;
  for (const auto& gpu : change->task.gpus) {
    const auto& device = DeviceOf(gpu.uuid);
    if (!device.stuck_since) continue;
    const auto since = std::chrono::duration_cast<base::Millis>(clock_.Mono() - *device.stuck_since);
    change->owns_gpus = false;
    return Finish(id, base::Fail(ErrorCode::kUnavailable,
                                 fmt::format("{}: a driver call of {} ago has not come back",
                                             NameOf(gpu.uuid), base::FormatDuration(since)),
                                 "gpuman health shows whether the GPU is well"));
  }
  for (const auto& gpu : change->task.gpus) DeviceOf(gpu.uuid).busy = true;
  RunChange(change);
}

base::CallbackAwaitable<std::monostate> DeviceSettingsManager::Drive(driver::NvmlExecutor::Work work) {
  return base::CallbackAwaitable<std::monostate>(
      [this, work = std::move(work)](const std::function<void(std::monostate)>& then) {
        callbacks_.drive(work, [then] { then({}); });
      });
}

base::CallbackAwaitable<base::Result<>> DeviceSettingsManager::Keep(jobs::SettingRows entries) {
  return base::CallbackAwaitable<base::Result<>>(
      [this, entries = std::move(entries)](std::function<void(base::Result<>)> done) {
        callbacks_.keep(entries, std::move(done));
      });
}

void DeviceSettingsManager::EnterDriver(Change& change, ChangeStage stage) {
  change.stage = stage;
  change.deadline = clock_.Mono() + settings_.call_limit;
  change.shared->progress.gpu = 0;
}

// If the driver does not answer in time, OnTime gives the change up and tells the caller; this function goes
// on when the driver's call returns.
base::DetachedCoroutine DeviceSettingsManager::RunChange(std::shared_ptr<Change> change) {
  EnterDriver(*change, ChangeStage::kReading);
  co_await Drive(Reading(*change));
  if (change->given_up) {
    Finish(change->id, DeviceTaskResult{});
    co_return;
  }
  if (auto planned = Plan(*change); !planned) {
    Finish(change->id, base::Fail(std::move(planned.error())));
    co_return;
  }
  if (change->task.dry_run) {
    Finish(change->id, std::move(change->report));
    co_return;
  }
  // The records are kept before the first step, so that the next daemon knows what was wanted, whatever
  // happens meanwhile.
  change->stage = ChangeStage::kKeeping;
  if (auto entries = EntriesOf(*change); !entries.empty()) {
    auto kept = co_await Keep(std::move(entries));
    if (!kept) {
      Finish(change->id,
             base::Fail(std::move(kept.error()).In("nothing was changed, as it could not be stored")));
      co_return;
    }
  }
  for (const auto& [uuid, record] : change->next) DeviceOf(uuid).record = record;
  EnterDriver(*change, ChangeStage::kSetting);
  co_await Drive(Setting(*change));
  Finish(change->id, change->given_up ? DeviceTaskResult{} : StoreResults(*change));
}

// Reads all GPUs of the change.
driver::NvmlExecutor::Work DeviceSettingsManager::Reading(const Change& change) {
  return [gpus = change.task.gpus, shared = change.shared](const driver::LoadedNvml& nvml) {
    for (std::size_t i = 0; i < gpus.size() && !shared->progress.abandoned; ++i) {
      shared->progress.gpu = i;
      if (nvml)
        shared->readings.push_back(device::ReadDevice(**nvml, gpus[i].uuid));
      else
        shared->readings.emplace_back(base::Fail(nvml.error()));
    }
  };
}

// Computes from the readings the next record of each GPU, and the steps to it.
base::Result<> DeviceSettingsManager::Plan(Change& change) {
  change.report.dry_run = change.task.dry_run;
  for (std::size_t i = 0; i < change.task.gpus.size(); ++i) {
    const auto& gpu = change.task.gpus[i];
    auto& reading = change.shared->readings[i];
    if (!reading) return base::Fail(std::move(reading.error()).In(NameOf(gpu.uuid)));
    const auto& former = DeviceOf(gpu.uuid).record;
    std::vector<std::string> notes;
    auto next = change.task.draft(gpu, former, *reading, notes);
    if (!next) return base::Fail(std::move(next.error()).In(NameOf(gpu.uuid)));
    for (const auto& note : notes)
      change.report.notes.push_back(fmt::format("{}: {}", NameOf(gpu.uuid), note));
    // An energy counter that began anew tells of a reset: locked clocks, which cannot be read, are lost.
    auto& last_mj = DeviceOf(gpu.uuid).energy_mj;
    const bool forgot = last_mj && reading->energy_mj && *reading->energy_mj < *last_mj;
    if (reading->energy_mj) last_mj = reading->energy_mj;
    change.work.push_back({gpu.uuid, StepsTo(*next, former, *reading, change.task.anew || forgot)});
    for (const auto& step : change.work.back().steps) change.report.steps.push_back({gpu, step});
    change.former[gpu.uuid] = former;
    change.next[gpu.uuid] = std::move(*next);
  }
  if (change.task.clear_ecc) {
    change.report.cleared = change.task.gpus;
    change.report.lifetime = *change.task.clear_ecc;
  }
  return {};
}

jobs::SettingRows DeviceSettingsManager::EntriesOf(const Change& change) {
  jobs::SettingRows entries;
  for (const auto& [uuid, record] : change.next)
    if (record != change.former.at(uuid)) entries.insert(EntryOf(uuid, record));
  return entries;
}

// Carries out the steps of the change.
driver::NvmlExecutor::Work DeviceSettingsManager::Setting(const Change& change) {
  const auto on_failure = change.task.go_on ? device::OnFailure::kGoOn : device::OnFailure::kUndo;
  return [work = change.work, on_failure, clear = change.task.clear_ecc,
          shared = change.shared](const driver::LoadedNvml& nvml) {
    if (!nvml) {
      shared->outcome.failures.push_back({"", {}, nvml.error()});
      return;
    }
    shared->outcome = device::Apply(**nvml, work, on_failure, shared->progress);
    if (!clear) return;
    for (const auto& gpu : work) {
      auto cleared = device::ClearEccErrors(**nvml, gpu.uuid, *clear);
      if (!cleared) shared->outcome.failures.push_back({gpu.uuid, {}, std::move(cleared.error())});
    }
  };
}

// Stores and reports the results of the steps.
base::Result<DeviceTaskResult> DeviceSettingsManager::StoreResults(Change& change) {
  const auto& outcome = change.shared->outcome;
  std::map<std::string, std::set<device::Setting>> failed;
  for (const auto& failure : outcome.failures)
    if (failure.setting) failed[failure.uuid].insert(*failure.setting);
  for (auto& [uuid, record] : change.next) {
    if (!outcome.Succeeded() && !change.task.go_on) {
      Store(uuid, change.former.at(uuid));
      continue;
    }
    // A setting that was to be restored and could not be set is tried again at the next check.
    auto restored = WithRestored(record);
    for (const auto setting : failed[uuid])
      if (record.to_restore.contains(setting)) restored.to_restore[setting] = record.to_restore.at(setting);
    Store(uuid, restored);
  }
  if (!outcome.Succeeded()) return base::Fail(ErrorOf(change, outcome));
  return std::move(change.report);
}

base::Error DeviceSettingsManager::ErrorOf(const Change& change, const device::ApplyOutcome& outcome) const {
  std::vector<std::string> parts;
  for (const auto& failure : outcome.failures) {
    std::string what = failure.error.message;
    if (failure.setting) what = fmt::format("{}: {}", device::NameOf(*failure.setting), what);
    parts.push_back(failure.uuid.empty() ? what : fmt::format("{}: {}", NameOf(failure.uuid), what));
  }
  for (const auto& gpu : outcome.undone)
    for (const auto& step : gpu.steps)
      parts.push_back(fmt::format("{}: put back: {}", NameOf(gpu.uuid), StepText(step)));
  for (const auto& failure : outcome.not_undone)
    parts.push_back(fmt::format("{}: could not be put back: {}: {}", NameOf(failure.uuid),
                                failure.setting ? device::NameOf(*failure.setting) : "",
                                failure.error.message));
  auto error = outcome.failures.front().error;
  error.message = fmt::format("{}", fmt::join(parts, "; "));
  if (error.hint == device::kInUseHint && !change.task.gpus.empty()) {
    const auto users = callbacks_.users_of(outcome.failures.front().uuid);
    if (!users.empty()) error.hint = "in use by " + users;
  }
  return error;
}

void DeviceSettingsManager::Finish(std::uint64_t id, base::Result<DeviceTaskResult> result) {
  const auto change = changes_.at(id);
  changes_.erase(id);
  if (change->owns_gpus)
    for (const auto& gpu : change->task.gpus) {
      auto& device = DeviceOf(gpu.uuid);
      device.busy = false;
      device.stuck_since.reset();
    }
  const bool succeeded = result && !change->given_up;
  if (change->given_up) {
    for (const auto& gpu : change->task.gpus) Reapply(gpu.uuid, "the driver answers again");
  } else {
    change->done(std::move(result));
  }
  // After a failure the change is not tried again at once: that would never end.
  if (succeeded)
    for (const auto& gpu : change->task.gpus) FollowJobs(gpu.uuid);
  StartWaiting();
}

// The worker thread is still in the driver. It has all the data that it needs, and undoes its steps when the
// call returns.
void DeviceSettingsManager::GiveUp(Change& change) {
  change.given_up = true;
  change.shared->progress.abandoned = true;
  const auto at = std::min<std::size_t>(change.shared->progress.gpu, change.task.gpus.size() - 1);
  for (const auto& gpu : change.task.gpus)
    DeviceOf(gpu.uuid).stuck_since = clock_.Mono() - settings_.call_limit;
  if (change.stage == ChangeStage::kSetting && !change.task.go_on)
    for (const auto& [uuid, record] : change.former) Store(uuid, record);
  const auto done = std::exchange(change.done, {});
  done(base::Fail(ErrorCode::kTimeout,
                  fmt::format("{}: the driver has not answered within {}", NameOf(change.task.gpus[at].uuid),
                              base::FormatDuration(settings_.call_limit)),
                  kSlowHint));
  StartWaiting();
}

void DeviceSettingsManager::Query(std::vector<gpu::Gpu> gpus,
                                  std::function<void(std::vector<DeviceSettingsState>)> done) {
  auto query = std::make_unique<PendingQuery>();
  const auto id = ++last_id_;
  query->deadline = clock_.Mono() + settings_.call_limit;
  query->missing = gpus.size();
  query->done = std::move(done);
  query->readings.resize(gpus.size());
  query->gpus = gpus;
  queries_[id] = std::move(query);
  if (gpus.empty()) return EndQuery(id);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const auto reading = std::make_shared<std::optional<base::Result<device::DeviceReading>>>();
    callbacks_.drive(
        [reading, uuid = gpus[i].uuid](const driver::LoadedNvml& nvml) {
          reading->emplace(nvml ? device::ReadDevice(**nvml, uuid)
                                : base::Result<device::DeviceReading>(base::Fail(nvml.error())));
        },
        [this, id, i, reading] { OnQueried(id, i, std::move(**reading)); });
  }
}

void DeviceSettingsManager::OnQueried(std::uint64_t id, std::size_t index,
                                      base::Result<device::DeviceReading> reading) {
  const auto it = queries_.find(id);
  if (it == queries_.end()) return;
  it->second->readings[index] = std::move(reading);
  if (--it->second->missing == 0) EndQuery(id);
}

void DeviceSettingsManager::EndQuery(std::uint64_t id) {
  const auto query = std::move(queries_.extract(id).mapped());
  std::vector<DeviceSettingsState> states;
  for (std::size_t i = 0; i < query->gpus.size(); ++i) {
    const auto& gpu = query->gpus[i];
    const auto& device = DeviceOf(gpu.uuid);
    auto reading = query->readings[i]
                       ? std::move(*query->readings[i])
                       : base::Result<device::DeviceReading>(base::Fail(
                             ErrorCode::kTimeout, fmt::format("the driver has not answered within {}",
                                                              base::FormatDuration(settings_.call_limit))));
    auto drift = reading ? device::DriftOf(device.record, *reading) : device.drift;
    states.push_back({gpu, std::move(reading), device.record, std::move(drift)});
  }
  query->done(std::move(states));
}

}  // namespace gpuman::daemon
