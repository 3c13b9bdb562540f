// Checks periodically whether the settings are the wanted ones, and handles differences.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "daemon/device/change.h"
#include "daemon/device/device_settings_manager.h"
#include "device/reader.h"

namespace gpuman::daemon {

void DeviceSettingsManager::BeginChecks() {
  for (const auto& [uuid, device] : devices_) {
    if (!device.gpu || device.busy || device.record.IsEmpty()) continue;
    std::set<device::Setting> settings;
    for (const auto& [setting, value] : Wanted(device.record)) settings.insert(setting);
    const auto reading = std::make_shared<std::optional<base::Result<device::DeviceReading>>>();
    DeviceOf(uuid).busy = true;
    auto change = std::make_shared<Change>();
    change->id = ++last_id_;
    change->task.gpus = {*device.gpu};
    change->deadline = clock_.Mono() + settings_.call_limit;
    change->done = [this, id = uuid](base::Result<DeviceTaskResult> failed) {
      if (!failed) ReportError(id, failed.error().message);
    };
    changes_[change->id] = change;
    callbacks_.drive(
        [reading, id = uuid, settings](const driver::LoadedNvml& nvml) {
          reading->emplace(nvml ? device::ReadSettings(**nvml, id, settings)
                                : base::Result<device::DeviceReading>(base::Fail(nvml.error())));
        },
        [this, id = change->id, gpu = uuid, reading] {
          Finish(id, DeviceTaskResult{});
          OnChecked(gpu, **reading);
        });
  }
}

void DeviceSettingsManager::OnChecked(const std::string& uuid,
                                      const base::Result<device::DeviceReading>& reading) {
  auto& device = DeviceOf(uuid);
  if (!reading || device.busy) return;  // the guard tells of GPUs that the driver does not reach
  const auto last = std::exchange(device.energy_mj, reading->energy_mj);
  const bool forgot = last && reading->energy_mj && *reading->energy_mj < *last;
  const auto record = WithEccSeen(device.record, *reading, Now());
  if (record.ecc_since && record.ecc_since != device.record.ecc_since)
    callbacks_.tell("device_ecc", uuid,
                    fmt::format("{}: ECC is {} since the last reset", NameOf(uuid),
                                Format(device::Setting::kEcc, record.base.at(device::Setting::kEcc))));
  Store(uuid, record);
  if (forgot) return Reapply(uuid, "the GPU was reset, or its driver loaded anew");
  if (!record.to_restore.empty()) return Reapply(uuid, "it could not be set before");
  auto drift = device::DriftOf(record, *reading);
  const bool mend = settings_.mend_drift && !drift.empty();
  TellDrift(uuid, std::move(drift));
  if (mend) Reapply(uuid, "somebody had changed it");
}

void DeviceSettingsManager::TellDrift(const std::string& uuid, std::vector<device::Drift> drift) {
  auto& device = DeviceOf(uuid);
  // A clock has another value at each check.
  const bool is_same = std::equal(
      drift.begin(), drift.end(), device.drift.begin(), device.drift.end(), [](const auto& a, const auto& b) {
        return a.setting == b.setting && a.wanted == b.wanted && (IsClocks(a.setting) || a.found == b.found);
      });
  const bool was = !device.drift.empty();
  device.drift = std::move(drift);
  if (is_same) return;
  if (device.drift.empty()) {
    if (was)
      callbacks_.tell("device_drift_over", uuid, fmt::format("{}: set as it is wanted again", NameOf(uuid)));
    return;
  }
  std::vector<std::string> parts;
  for (const auto& [setting, wanted, found] : device.drift)
    parts.push_back(IsClocks(setting) ? fmt::format("{} at {} MHz, locked to {}", device::NameOf(setting),
                                                    found.high, Format(setting, wanted))
                                      : fmt::format("{} {}, wanted {}", device::NameOf(setting),
                                                    Format(setting, found), Format(setting, wanted)));
  callbacks_.tell("device_drift", uuid,
                  fmt::format("{} is not set as it is wanted: {}", NameOf(uuid), fmt::join(parts, "; ")));
}

}  // namespace gpuman::daemon
