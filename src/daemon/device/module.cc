#include "daemon/device/module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "daemon/suspension/module.h"

namespace gpuman::daemon {
namespace {

DeviceManagementSettings DeviceSettingsOf(const Config& config) {
  return {config.device.mend_drift, config.device.check, config.device.call_limit, config.device.profiles};
}

}  // namespace

DeviceModule::DeviceModule(Core& core, SuspensionModule& suspension)
    : core_(core),
      suspension_(suspension),
      executor_(driver::NvmlExecutor::Order::kAtOnce,
                [&core](std::function<void()> act) { boost::asio::post(core.loop(), std::move(act)); }),
      devices_(core.clock(), Callbacks()) {}

void DeviceModule::Restore(jobs::StoreContents& contents) {
  Reconfigure();
  devices_.Recall(contents.settings);
}

void DeviceModule::Reconfigure() { devices_.SetSettings(DeviceSettingsOf(core_.config())); }

bool DeviceModule::Stop() { return executor_.Stop(core_.config().sampling.call_limit); }

void DeviceModule::OnInventory() { devices_.OnInventory(core_.whole_gpus()); }

void DeviceModule::OnTick() {
  FollowJobProfiles();
  devices_.OnTime();
}

// A GPU that the driver did not reach, and reaches again, may have been reset.
void DeviceModule::OnSample(const gpu::GpuSample& sample) {
  if (gpu::IsInstance(sample.uuid)) return;
  if (sample.state == gpu::GpuReachability::kLost) away_.insert(sample.uuid);
  if (sample.state == gpu::GpuReachability::kOk && away_.erase(sample.uuid) > 0) devices_.OnBack(sample.uuid);
}

void DeviceModule::OnJobLeft(base::JobId job, UnwatchReason /*why*/) { job_profiles_.Forget(job); }

void DeviceModule::Show(const jobs::Job& job, api::JobView& view) const {
  if (!job.spec->device_profile) return;
  for (auto& note : job_profiles_.NotesOf(job.id)) view.notes.push_back(std::move(note));
}

// --- What the devices need ---

DeviceCallbacks DeviceModule::Callbacks() {
  return {[this](jobs::SettingRows entries, std::function<void(base::Result<>)> done) {
            core_.Keep(std::move(entries), std::move(done));
          },
          [this](driver::NvmlExecutor::Work work, std::function<void()> then) {
            executor_.Run(std::move(work), std::move(then));
          },
          [this](const char* kind, const std::string& gpu, const std::string& message) {
            core_.AddGpuEvent(kind, gpu, message);
          },
          [this](std::int64_t job, const std::string& gpu, const std::string& why) {
            TellProfileRefused({job}, gpu, why);
          },
          [this](const std::string& gpu) { return UsersOf(gpu); }};
}

void DeviceModule::TellChange(const DeviceTaskResult& report, const std::string& by) {
  std::map<std::string, std::vector<std::string>> steps;
  std::map<std::string, unsigned> index;
  for (const auto& [gpu, step] : report.steps) {
    steps[gpu.uuid].push_back(
        fmt::format("{} {}", device::NameOf(step.setting), Format(step.setting, step.to)));
    index[gpu.uuid] = gpu.index;
  }
  for (const auto& gpu : report.cleared) {
    steps[gpu.uuid].push_back(
        fmt::format("{} ECC error counters set to zero", report.lifetime ? "aggregate" : "volatile"));
    index[gpu.uuid] = gpu.index;
  }
  for (const auto& [uuid, texts] : steps)
    core_.AddGpuEvent("device_changed", uuid,
                      fmt::format("GPU {}: {} (by {})", index.at(uuid), fmt::join(texts, ", "), by));
}

std::string DeviceModule::UsersOf(const std::string& gpu) const {
  const auto* const status = core_.guard().Find(gpu);
  if (!status) return {};
  std::vector<std::string> users;
  for (const auto& [uuid, one] : core_.guard().Statuses()) {
    if (uuid != gpu && (!one.gpu.mig || one.gpu.mig->parent != gpu)) continue;
    for (const auto& process : one.processes)
      users.push_back(
          process.job ? fmt::format("pid {} ({}, job {})", process.id.pid, process.name, process.job->value)
          : process.ours ? fmt::format("pid {} (gpuman's own)", process.id.pid)
                         : fmt::format("pid {} ({})", process.id.pid, process.name));
  }
  return fmt::format("{}", fmt::join(users, ", "));
}

// --- Profiles of jobs ---

void DeviceModule::FollowJobProfiles() {
  std::vector<RunningJob> running;
  bool asked = false;
  for (const auto* job : core_.jobs().Active()) {
    if (jobs::IsWaiting(*job) || !job->keeper || suspension_.StateOf(*job) == spec::JobState::kSuspended)
      continue;
    // A queued job without GPUs has none.
    const bool has_all = job->gpus.empty() && !job->queued;
    running.push_back(
        {job->id, job->spec->device_profile.value_or(""), has_all ? std::nullopt : std::optional(job->gpus)});
    asked |= job->spec->device_profile.has_value();
  }
  if (!asked) running.clear();
  auto decision =
      job_profiles_.Follow(running, core_.inventory(), core_.guard().Statuses(),
                           [this](const std::string& uuid) { return devices_.ProfiledJob(uuid); });
  for (const auto& [id, why] : decision.refused) TellProfileNotGiven(id, why);
  devices_.SetJobProfiles(std::move(decision.given));
}

void DeviceModule::TellProfileNotGiven(base::JobId id, const std::string& why) {
  const auto* const job = core_.jobs().Find(id);
  if (!job) return;
  jobs::Event event;
  event.at = core_.clock().Wall();
  event.kind = "device_profile_not_given";
  event.job = id.value;
  event.tag = job->tag;
  event.message = fmt::format("job {} ({}): {}", id.value, job->tag, why);
  core_.events().Add(std::move(event));
  core_.jobs().Note(id, why);
}

void DeviceModule::TellProfileRefused(base::JobId id, const std::string& gpu, const std::string& why) {
  const auto note = fmt::format("on {}: {}", gpu, why);
  job_profiles_.SetRefused(id, note);
  TellProfileNotGiven(id, note);
}

}  // namespace gpuman::daemon
