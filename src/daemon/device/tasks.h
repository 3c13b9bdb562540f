// Makes tasks from a client's requests about devices, and answers from the results. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/device_types.h"
#include "daemon/device/device_settings_manager.h"

namespace gpuman::daemon {

// kInvalidArgument: no device has such a setting, or such a value of it.
base::Result<DeviceTask> TaskOf(const api::DeviceSettingsRequest& change, std::vector<gpu::Gpu> gpus,
                                base::WallTime now);

// `profile` null: the task takes off the profile in force.
DeviceTask TaskOf(const device::Profile* profile, std::optional<base::WallTime> until,
                  std::vector<gpu::Gpu> gpus, bool dry_run);

api::DeviceSettingsResult ViewOf(const DeviceTaskResult& report);
api::DeviceView ViewOf(const DeviceSettingsState& state);
api::DeviceProfile ViewOf(const device::Profile& profile);

}  // namespace gpuman::daemon
