// Internal to DeviceSettingsManager: a change and a query that are under way.
#pragma once

#include "daemon/device/device_settings_manager.h"

namespace gpuman::daemon {

// The entry of the settings table that keeps a record: "device/GPU-…"; an empty one is deleted.
jobs::SettingRows::value_type EntryOf(const std::string& uuid, const device::SettingsRecord& record);

struct DeviceSettingsManager::Change {
  // Shared with the worker's thread, which outlives a change that was given up.
  struct Shared {
    device::ApplyProgress progress;
    std::vector<base::Result<device::DeviceReading>> readings;  // by GPU of the task
    device::ApplyOutcome outcome;
  };
  std::uint64_t id = 0;
  DeviceTask task;
  Done done;
  ChangeStage stage = ChangeStage::kReading;
  base::MonoTime deadline{};
  bool owns_gpus = true;
  bool given_up = false;
  std::map<std::string, device::SettingsRecord> former, next;
  std::vector<device::GpuSteps> work;
  DeviceTaskResult report;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
};

struct DeviceSettingsManager::PendingQuery {
  std::vector<gpu::Gpu> gpus;
  std::vector<std::optional<base::Result<device::DeviceReading>>> readings;
  std::size_t missing = 0;
  base::MonoTime deadline{};
  std::function<void(std::vector<DeviceSettingsState>)> done;
};

}  // namespace gpuman::daemon
