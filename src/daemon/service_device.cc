// What the settings of devices have to do with the rest: they are stored, told, and follow the jobs that ask
// for a profile.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "daemon/service.h"

namespace gpuman::daemon {
namespace {

DeviceSettings DeviceSettingsOf(const Config& config) {
  return {config.device.mend_drift, config.device.check, config.device.call_limit, config.device.profiles};
}

}  // namespace

void Service::BeginDevices(const jobs::Settings& settings) {
  device_worker_ = std::make_unique<device::Worker>(
      [this](std::function<void()> act) { boost::asio::post(loop_, std::move(act)); });
  DeviceHost& host = *this;
  devices_ = std::make_unique<Devices>(clock_, host);
  SetUpDevices();
  devices_->Recall(settings);
}

void Service::SetUpDevices() { devices_->SetSettings(DeviceSettingsOf(config_)); }

void Service::KeepDevices(jobs::Settings entries, std::function<void(base::Result<>)> done) {
  jobs::Batch batch;
  batch.settings = std::move(entries);
  store_->Submit(std::move(batch), std::move(done));
}

void Service::Drive(device::Worker::Work work, std::function<void()> then) {
  device_worker_->Do(std::move(work), std::move(then));
}

void Service::TellDevice(const char* kind, const std::string& gpu, const std::string& message) {
  spdlog::info("{}: {}", kind, message);
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = kind;
  event.gpu = gpu;
  event.message = message;
  events_->Add(std::move(event));
}

void Service::TellDeviceChange(const DeviceReport& report, const std::string& by) {
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
    TellDevice("device_changed", uuid,
               fmt::format("GPU {}: {} (by {})", index.at(uuid), fmt::join(texts, ", "), by));
}

std::string Service::UsersOf(const std::string& gpu) {
  const auto* const status = guard_->Find(gpu);
  if (!status) return {};
  std::vector<std::string> users;
  for (const auto& [uuid, one] : guard_->Statuses()) {
    if (uuid != gpu && (!one.gpu.mig || one.gpu.mig->parent != gpu)) continue;
    for (const auto& process : one.processes)
      users.push_back(
          process.job ? fmt::format("pid {} ({}, job {})", process.id.pid, process.name, process.job->value)
                      : fmt::format("pid {} ({})", process.id.pid, process.name));
  }
  return fmt::format("{}", fmt::join(users, ", "));
}

namespace {

bool Uses(const jobs::Job& job, const std::string& gpu) {
  // One of the queue without GPUs has none.
  if (job.gpus.empty()) return !job.queued && !gpu::IsInstance(gpu);
  return std::find(job.gpus.begin(), job.gpus.end(), gpu) != job.gpus.end();
}

}  // namespace

// A profile is for a job that has the GPU to itself: neither another job nor a program of nobody's is there.
void Service::FollowJobProfiles() {
  std::vector<const jobs::Job*> on_gpus;
  bool asked = false;
  for (const auto* job : supervisor_->Active()) {
    if (jobs::IsWaiting(*job) || !job->keeper || StateOf(*job) == api::JobState::kSuspended) continue;
    on_gpus.push_back(job);
    asked |= !job->device_profile.empty();
  }
  std::map<std::string, JobProfile> profiles;
  std::map<base::JobId, std::string> beside;
  std::map<std::string, base::MonoTime> doubted;
  for (const auto& gpu : asked ? inventory().gpus : std::vector<gpu::Gpu>{}) {
    std::vector<const jobs::Job*> here;
    for (const auto* job : on_gpus)
      if (Uses(*job, gpu.uuid)) here.push_back(job);
    for (const auto* job : here) {
      if (job->device_profile.empty()) continue;
      if (gpu.mig) {
        beside[job->id] = fmt::format(
            "device profile {} is not in force: GPU {} is an instance (MIG), and settings are of the whole "
            "GPU",
            job->device_profile, gpu::NumberOf(gpu));
        continue;
      }
      const auto other = CompanyOf(*job, here, gpu);
      // Whose a process is may come to light only after it was seen: one look is none.
      const auto* const status = guard_->Find(gpu.uuid);
      const auto seen = status ? status->sample.taken_at : base::MonoTime{};
      const auto first = doubted_.contains(gpu.uuid) ? doubted_.at(gpu.uuid) : seen;
      if (!other.empty()) doubted[gpu.uuid] = first;
      const bool stays = devices_->ProfiledJob(gpu.uuid) == job->id.value && first == seen;
      if (!other.empty() && !stays)
        beside[job->id] = fmt::format("device profile {} is not in force on GPU {}: {}", job->device_profile,
                                      gpu.index, other);
      else
        profiles[gpu.uuid] = {job->id.value, job->device_profile};
    }
  }
  for (const auto& [id, why] : beside)
    if (const auto it = profiles_not_given_.find(id); it == profiles_not_given_.end() || it->second != why)
      TellProfileNotGiven(id, why);
  profiles_not_given_ = std::move(beside);
  doubted_ = std::move(doubted);
  devices_->SetJobProfiles(std::move(profiles));
}

std::string Service::CompanyOf(const jobs::Job& job, const std::vector<const jobs::Job*>& here,
                               const gpu::Gpu& gpu) const {
  for (const auto* other : here)
    if (other->id != job.id) return fmt::format("job {} runs there too", other->id.value);
  const auto* const status = guard_->Find(gpu.uuid);
  if (!status) return {};
  for (const auto& process : status->processes)
    if (!process.job) return fmt::format("pid {} ({}) uses it too", process.id.pid, process.name);
  return {};
}

void Service::TellProfileNotGiven(base::JobId id, const std::string& why) {
  const auto* const job = supervisor_->Find(id);
  if (!job) return;
  jobs::Event event;
  event.at = clock_.Wall();
  event.kind = "device_profile_not_given";
  event.job = id.value;
  event.tag = job->tag;
  event.message = fmt::format("job {} ({}): {}", id.value, job->tag, why);
  events_->Add(std::move(event));
  supervisor_->Note(id, why);
}

void Service::TellProfileRefused(std::int64_t job, const std::string& gpu, const std::string& why) {
  const base::JobId id{job};
  profiles_refused_[id] = fmt::format("on {}: {}", gpu, why);
  TellProfileNotGiven(id, profiles_refused_.at(id));
}

void Service::ShowProfileNotes(const jobs::Job& job, api::JobView& view) const {
  if (job.device_profile.empty()) return;
  view.device_profile = job.device_profile;
  for (const auto* notes : {&profiles_not_given_, &profiles_refused_})
    if (const auto it = notes->find(job.id); it != notes->end()) view.notes.push_back(it->second);
}

void Service::FollowAway(const gpu::Sample& sample) {
  if (sample.state == gpu::GpuState::kLost) away_.insert(sample.uuid);
  if (sample.state == gpu::GpuState::kOk && away_.erase(sample.uuid) > 0) devices_->OnBack(sample.uuid);
}

}  // namespace gpuman::daemon
