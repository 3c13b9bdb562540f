#include "daemon/device/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace gpuman::daemon {
namespace {

using base::ErrorCode;
using device::Setting;

base::Result<Setting> SettingOf(const std::string& word) {
  if (const auto setting = device::SettingFromString(word)) return *setting;
  std::vector<std::string_view> words;
  for (const auto setting : device::AllSettings()) words.push_back(ToString(setting));
  return base::Fail(ErrorCode::kInvalidArgument,
                    fmt::format("there is no setting '{}'; there are {}", word, fmt::join(words, ", ")));
}

void NoteOnEcc(const device::SettingsRecord& next, const device::DeviceReading& reading,
               std::vector<std::string>& notes) {
  const auto ecc = next.base.find(Setting::kEcc);
  const auto* const reported = Find(reading, Setting::kEcc);
  if (ecc == next.base.end() || !reported || reported->now == ecc->second) return;
  notes.push_back(
      fmt::format("ECC is {} from the next reset of the GPU on: nvidia-smi --gpu-reset, or a reboot",
                  Format(Setting::kEcc, ecc->second)));
}

// Adds a note for each setting where the explicit value overrides a profile in force.
void NoteOnLayers(const device::SettingsRecord& former, const std::vector<Setting>& settings,
                  std::vector<std::string>& notes) {
  for (const auto setting : settings)
    for (const auto& layer : former.layers)
      if (layer.values.contains(setting))
        notes.push_back(fmt::format("the {} goes before profile {}, which is in force",
                                    device::NameOf(setting), layer.name));
}

base::Result<device::SettingsRecord> Changed(const std::vector<device::DesiredSetting>& desired,
                                             const std::vector<Setting>& resets, bool clear_ecc,
                                             base::WallTime now, const device::SettingsRecord& record,
                                             const device::DeviceReading& reading,
                                             std::vector<std::string>& notes) {
  device::Values usual;
  for (const auto setting : resets) {
    GPUMAN_ASSIGN(usual[setting], DefaultOf(setting, reading));
  }
  auto next = WithoutValues(record, usual);
  GPUMAN_ASSIGN(const auto values, ResolveAll(desired, reading, next));
  next = WithValues(std::move(next), values, reading, now);
  if (values.contains(Setting::kEcc)) NoteOnEcc(next, reading, notes);
  auto settings = resets;
  for (const auto& wanted : desired) settings.push_back(wanted.setting);
  NoteOnLayers(record, settings, notes);
  if (clear_ecc) {
    if (auto has = CheckSupported(Setting::kEcc, reading); !has)
      return base::Fail(ErrorCode::kNotSupported, "it has no ECC, and so no counters of its errors");
    if (Find(reading, Setting::kEcc)->now == device::Switch(false))
      return base::Fail(ErrorCode::kConflict, "ECC is off: nothing is counted",
                        "gpuman device ecc on turns it on");
  }
  return next;
}

std::optional<std::string> Text(Setting setting, const std::optional<device::Value>& value) {
  return value ? std::optional(Format(setting, *value)) : std::nullopt;
}

void ShowRange(Setting setting, const device::DeviceReading& reading, api::DeviceSetting& view) {
  if (setting == Setting::kPower && reading.power)
    view.range = {reading.power->least_mw / 1000.0, reading.power->most_mw / 1000.0};
  if (setting == Setting::kPersistence || setting == Setting::kEcc) view.choices = {"on", "off"};
  if (setting == Setting::kComputeMode) view.choices = {"default", "exclusive-process", "prohibited"};
  if (!IsClocks(setting) || reading.clocks.empty()) return;
  const auto& [highest, graphics] = *reading.clocks.rbegin();
  if (setting == Setting::kGraphicsClocks)
    view.range = api::SettingRange{double(graphics.front()), double(graphics.back())};
  else
    view.range = api::SettingRange{double(reading.clocks.begin()->first), double(highest)};
  if (setting == Setting::kMemoryClocks)
    for (const auto& [mhz, with] : reading.clocks) view.choices.push_back(std::to_string(mhz));
}

api::DeviceSetting SettingViewOf(Setting setting, const device::ReportedSetting& reported,
                                 const DeviceSettingsState& state) {
  api::DeviceSetting view;
  view.name = ToString(setting);
  view.supported = reported.supported;
  if (!reported.why.empty()) view.why = reported.why;
  view.now = Text(setting, reported.now);
  if (reported.pending && reported.pending != reported.now) view.pending = Text(setting, reported.pending);
  view.usual = Text(setting, reported.usual);
  const auto wanted = Wanted(state.record);
  if (const auto it = wanted.find(setting); it != wanted.end()) {
    view.wanted = Format(setting, it->second);
    view.because = ReasonOf(state.record, setting);
  }
  view.drift = std::any_of(state.drift.begin(), state.drift.end(),
                           [&](const device::Drift& drift) { return drift.setting == setting; });
  if (setting == Setting::kEcc) view.since = state.record.ecc_since;
  if (reported.supported != false) ShowRange(setting, *state.reading, view);
  return view;
}

}  // namespace

base::Result<DeviceTask> TaskOf(const api::DeviceSettingsRequest& change, std::vector<gpu::Gpu> gpus,
                                base::WallTime now) {
  std::vector<device::DesiredSetting> desired;
  std::vector<Setting> resets;
  for (const auto& [word, text] : change.set) {
    GPUMAN_ASSIGN(const auto setting, SettingOf(word));
    GPUMAN_ASSIGN(auto wanted, device::ParseDesiredSetting(setting, text));
    desired.push_back(std::move(wanted));
  }
  for (const auto& word : change.reset) {
    GPUMAN_ASSIGN(const auto setting, SettingOf(word));
    if (change.set.contains(word))
      return base::Fail(ErrorCode::kInvalidArgument, fmt::format("{} is both set and reset", word));
    resets.push_back(setting);
  }
  DeviceTask task;
  task.gpus = std::move(gpus);
  task.dry_run = change.dry_run;
  if (change.clear_ecc) task.clear_ecc = *change.clear_ecc == "aggregate";
  task.draft = [desired = std::move(desired), resets = std::move(resets), now,
                clear_ecc = change.clear_ecc.has_value()](
                   const gpu::Gpu&, const device::SettingsRecord& record,
                   const device::DeviceReading& reading, std::vector<std::string>& notes) {
    return Changed(desired, resets, clear_ecc, now, record, reading, notes);
  };
  return task;
}

DeviceTask TaskOf(const device::Profile* profile, std::optional<base::WallTime> until,
                  std::vector<gpu::Gpu> gpus, bool dry_run) {
  DeviceTask task;
  task.gpus = std::move(gpus);
  task.dry_run = dry_run;
  task.draft = [profile = profile ? std::optional(*profile) : std::nullopt, until](
                   const gpu::Gpu&, const device::SettingsRecord& record,
                   const device::DeviceReading& reading,
                   std::vector<std::string>& notes) -> base::Result<device::SettingsRecord> {
    if (!profile) {
      if (!record.ProfileLayer()) notes.emplace_back("no profile is in force");
      return WithoutLayer(record, /*of_job=*/false);
    }
    GPUMAN_ASSIGN(auto fitted, FitProfile(*profile, reading));
    notes = std::move(fitted.left_out);
    if (const auto* job = record.JobLayer())
      notes.push_back(
          fmt::format("profile {} of job {} goes before it while that runs", job->name, *job->job));
    return WithLayer(record, {profile->name, std::move(fitted.values), until, {}}, reading);
  };
  return task;
}

api::DeviceSettingsResult ViewOf(const DeviceTaskResult& report) {
  api::DeviceSettingsResult view{report.dry_run, {}, report.notes};
  for (const auto& [gpu, step] : report.steps)
    view.steps.push_back({static_cast<int>(gpu.index), gpu.uuid, std::string(ToString(step.setting)),
                          Text(step.setting, step.from), Format(step.setting, step.to)});
  for (const auto& gpu : report.cleared)
    view.steps.push_back({static_cast<int>(gpu.index),
                          gpu.uuid,
                          report.lifetime ? "aggregate_ecc_errors" : "volatile_ecc_errors",
                          {},
                          "0"});
  return view;
}

api::DeviceView ViewOf(const DeviceSettingsState& state) {
  api::DeviceView view;
  view.index = static_cast<int>(state.gpu.index);
  view.uuid = state.gpu.uuid;
  view.name = state.gpu.name;
  for (const auto& layer : state.record.layers) view.profiles.push_back({layer.name, layer.until, layer.job});
  if (!state.reading) {
    view.problem = state.reading.error().message;
    return view;
  }
  if (state.reading->graphics_mhz) view.graphics_mhz = static_cast<int>(*state.reading->graphics_mhz);
  if (state.reading->memory_mhz) view.memory_mhz = static_cast<int>(*state.reading->memory_mhz);
  for (const auto& [setting, reported] : state.reading->settings)
    view.settings.push_back(SettingViewOf(setting, reported, state));
  return view;
}

api::DeviceProfile ViewOf(const device::Profile& profile) {
  api::DeviceProfile view{profile.name, profile.summary, profile.built_in, {}};
  for (const auto& [setting, wanted] : profile.desired)
    view.settings[std::string(ToString(setting))] = wanted.text;
  return view;
}

}  // namespace gpuman::daemon
