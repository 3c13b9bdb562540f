#include "daemon/device/device_settings_manager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "daemon/device/change.h"

namespace gpuman::daemon {
namespace {

constexpr std::string_view kDeviceKey = "device/";

std::string TextOf(const DeviceTaskResult& report) {
  std::vector<std::string> steps;
  for (const auto& [gpu, step] : report.steps)
    steps.push_back(fmt::format("{} {}", NameOf(step.setting), Format(step.setting, step.to)));
  return fmt::format("{}", fmt::join(steps, ", "));
}

base::Result<device::SettingsRecord> Unchanged(const gpu::Gpu&, const device::SettingsRecord& record,
                                               const device::DeviceReading&, std::vector<std::string>&) {
  return record;
}

}  // namespace

jobs::SettingRows::value_type EntryOf(const std::string& uuid, const device::SettingsRecord& record) {
  return {std::string(kDeviceKey) + uuid,
          record.IsEmpty() ? std::nullopt : std::optional(device::SerializeRecord(record))};
}

DeviceSettingsManager::DeviceSettingsManager(const base::Clock& clock, DeviceCallbacks callbacks)
    : clock_(clock), callbacks_(std::move(callbacks)) {}
DeviceSettingsManager::~DeviceSettingsManager() = default;

void DeviceSettingsManager::Recall(const jobs::SettingRows& settings) {
  for (const auto& [key, text] : settings) {
    if (!text || !key.starts_with(kDeviceKey)) continue;
    auto record = device::ParseRecord(*text);
    if (!record) {
      spdlog::error("{}: {}", key, record.error().message);
      continue;
    }
    DeviceOf(key.substr(kDeviceKey.size())).record = std::move(*record);
  }
}

// Puts the record into force and keeps it. If it cannot be kept, this is told, and the record holds until the
// next start.
void DeviceSettingsManager::Store(const std::string& uuid, const device::SettingsRecord& record) {
  auto& device = DeviceOf(uuid);
  if (device.record == record) return;
  device.record = record;
  callbacks_.keep({EntryOf(uuid, record)}, [uuid](base::Result<> kept) {
    if (!kept) spdlog::error("the settings of {} could not be stored: {}", uuid, kept.error().message);
  });
}

std::string DeviceSettingsManager::NameOf(const std::string& uuid) const {
  const auto it = devices_.find(uuid);
  return it != devices_.end() && it->second.gpu ? fmt::format("GPU {}", it->second.gpu->index)
                                                : "GPU " + uuid;
}

void DeviceSettingsManager::OnInventory(const gpu::Inventory& inventory) {
  std::set<std::string> here, fresh;
  for (const auto& gpu : inventory.gpus) {
    here.insert(gpu.uuid);
    auto& device = DeviceOf(gpu.uuid);
    if (!device.gpu) fresh.insert(gpu.uuid);
    device.gpu = gpu;
  }
  for (auto& [uuid, device] : devices_) {
    if (here.contains(uuid)) continue;
    device.gpu.reset();
    device.is_judged = false;
  }
  for (const auto& uuid : fresh) Reapply(uuid, "gpumand or the driver was started");
}

void DeviceSettingsManager::OnBack(const std::string& uuid) { Reapply(uuid, "the GPU is back"); }

// Sets again all that is wanted or to be restored, also settings that the driver cannot read back.
void DeviceSettingsManager::Reapply(const std::string& uuid, const std::string& why) {
  auto& device = DeviceOf(uuid);
  if (!device.gpu || device.record.IsEmpty()) return;
  DeviceTask task{{*device.gpu}, Unchanged, {}, false, true, true};
  Run(std::move(task), [this, uuid, why](base::Result<DeviceTaskResult> done) {
    if (!done) return ReportError(uuid, done.error().message);
    DeviceOf(uuid).last_error.clear();
    TellDrift(uuid, {});
    if (done->steps.empty()) return;
    callbacks_.tell("device_reapplied", uuid,
                    fmt::format("{}: set again as {}: {}", NameOf(uuid), why, TextOf(*done)));
  });
}

// Reports the same error only once.
void DeviceSettingsManager::ReportError(const std::string& uuid, const std::string& what) {
  auto& device = DeviceOf(uuid);
  if (device.last_error == what) return;
  device.last_error = what;
  callbacks_.tell("device_failed", uuid,
                  fmt::format("settings that are wanted could not be made so: {}", what));
}

void DeviceSettingsManager::OnTime() {
  const auto now = clock_.Mono();
  std::vector<std::shared_ptr<Change>> late;
  for (const auto& [id, change] : changes_)
    if (!change->given_up && change->stage != ChangeStage::kKeeping && change->deadline <= now)
      late.push_back(change);
  for (const auto& change : late) GiveUp(*change);
  std::vector<std::uint64_t> ended;
  for (const auto& [id, query] : queries_)
    if (query->deadline <= now) ended.push_back(id);
  for (const auto id : ended) EndQuery(id);
  EndProfiles();
  for (const auto& [uuid, device] : devices_) FollowJobs(uuid);
  if (check_at_ > now) return;
  check_at_ = now + settings_.check;
  BeginChecks();
}

void DeviceSettingsManager::EndProfiles() {
  std::vector<gpu::Gpu> over;
  for (const auto& [uuid, device] : devices_) {
    const auto* const layer = device.record.ProfileLayer();
    if (device.gpu && !device.busy && layer && layer->until && *layer->until <= Now())
      over.push_back(*device.gpu);
  }
  for (const auto& gpu : over) {
    const auto name = DeviceOf(gpu.uuid).record.ProfileLayer()->name;
    DeviceTask task;
    task.gpus = {gpu};
    task.go_on = true;
    task.draft = [this](const gpu::Gpu&, const device::SettingsRecord& record, const device::DeviceReading&,
                        std::vector<std::string>&) -> base::Result<device::SettingsRecord> {
      const auto* const layer = record.ProfileLayer();
      return layer && layer->until && *layer->until <= Now() ? WithoutLayer(record, /*of_job=*/false)
                                                             : record;
    };
    Run(std::move(task), [this, uuid = gpu.uuid, name](base::Result<DeviceTaskResult> done) {
      if (!done) return ReportError(uuid, done.error().message);
      callbacks_.tell(
          "device_profile_over", uuid,
          fmt::format("{}: the time of profile {} is over: {}", NameOf(uuid), name, TextOf(*done)));
    });
  }
}

void DeviceSettingsManager::SetJobProfiles(std::map<std::string, JobDeviceProfile> profiles) {
  const auto before = std::exchange(job_profiles_, std::move(profiles));
  const auto profile_of = [](const auto& all, const std::string& uuid) {
    const auto it = all.find(uuid);
    return it == all.end() ? std::nullopt : std::optional(it->second);
  };
  for (auto& [uuid, device] : devices_)
    if (device.gpu && (!std::exchange(device.is_judged, true) ||
                       profile_of(before, uuid) != profile_of(job_profiles_, uuid)))
      FollowJobs(uuid);
}

std::optional<std::int64_t> DeviceSettingsManager::ProfiledJob(const std::string& uuid) const {
  const auto it = devices_.find(uuid);
  const auto* const layer = it == devices_.end() ? nullptr : it->second.record.JobLayer();
  return layer ? layer->job : std::nullopt;
}

// Gives the GPU the profile that its job wants, or takes a profile off. Does nothing where the GPU is so
// already.
void DeviceSettingsManager::FollowJobs(const std::string& uuid) {
  auto& device = DeviceOf(uuid);
  if (!device.is_judged || !device.gpu || device.busy) return;
  const auto found = job_profiles_.find(uuid);
  const auto* const layer = device.record.JobLayer();
  const auto is = layer ? std::optional(JobDeviceProfile{*layer->job, layer->name}) : std::nullopt;
  auto wanted = found == job_profiles_.end() ? std::nullopt : std::optional(found->second);
  if (!wanted) device.refused.reset();
  if (device.refused == wanted) wanted.reset();
  if (is == wanted) return;
  const auto* const profile = wanted ? FindProfile(wanted->profile) : nullptr;
  const auto given = profile ? wanted : std::nullopt;
  DeviceTask task;
  task.gpus = {*device.gpu};
  task.go_on = profile == nullptr;
  task.draft = [given, profile = profile ? std::optional(*profile) : std::nullopt](
                   const gpu::Gpu&, const device::SettingsRecord& record,
                   const device::DeviceReading& reading,
                   std::vector<std::string>& notes) -> base::Result<device::SettingsRecord> {
    if (!profile) return WithoutLayer(record, /*of_job=*/true);
    GPUMAN_ASSIGN(auto fitted, FitProfile(*profile, reading));
    notes = std::move(fitted.left_out);
    return WithLayer(record, {profile->name, std::move(fitted.values), {}, given->job}, reading);
  };
  if (wanted && !profile) {
    device.refused = wanted;
    callbacks_.on_profile_refused(wanted->job, uuid,
                                  fmt::format("profile {} is not there any more", wanted->profile));
    if (!is) return;
  }
  Run(std::move(task), [this, uuid, given](base::Result<DeviceTaskResult> done) {
    if (!done) {
      if (!given) return ReportError(uuid, done.error().message);
      DeviceOf(uuid).refused = given;
      return callbacks_.on_profile_refused(
          given->job, uuid, fmt::format("profile {}: {}", given->profile, done.error().message));
    }
    callbacks_.tell(given ? "device_profile" : "device_profile_over", uuid,
                    given ? fmt::format("{}: profile {} for job {}: {}", NameOf(uuid), given->profile,
                                        given->job, TextOf(*done))
                          : fmt::format("{}: as it was before its job: {}", NameOf(uuid), TextOf(*done)));
  });
}

const device::Profile* DeviceSettingsManager::FindProfile(std::string_view name) const {
  for (const auto& profile : settings_.profiles)
    if (profile.name == name) return &profile;
  for (const auto& profile : device::BuiltInProfiles())
    if (profile.name == name) return &profile;
  return nullptr;
}

std::vector<device::Profile> DeviceSettingsManager::Profiles() const {
  std::vector<device::Profile> all = settings_.profiles;
  for (const auto& profile : device::BuiltInProfiles())
    if (FindProfile(profile.name) == &profile) all.push_back(profile);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

base::Result<> DeviceSettingsManager::CheckProfile(const std::string& name) const {
  if (FindProfile(name)) return {};
  std::vector<std::string> names;
  for (const auto& profile : Profiles()) names.push_back(profile.name);
  return base::Fail(
      base::ErrorCode::kNotFound,
      fmt::format("there is no device profile '{}'; there are {}", name, fmt::join(names, ", ")),
      "gpuman device profile list shows what they set");
}

std::vector<device::Drift> DeviceSettingsManager::DriftOf(const std::string& uuid) const {
  const auto it = devices_.find(uuid);
  return it == devices_.end() ? std::vector<device::Drift>{} : it->second.drift;
}

}  // namespace gpuman::daemon
