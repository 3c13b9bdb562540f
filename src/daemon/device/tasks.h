// From what a client asks of the devices to tasks, and from what became of it to answers. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/device_types.h"
#include "daemon/device/devices.h"

namespace gpuman::daemon {

// kInvalidArgument: a setting, or a value for one, that there is not on any device.
base::Result<DeviceTask> TaskOf(const api::DeviceChange& change, std::vector<gpu::Gpu> gpus,
                                base::WallTime now);

// `profile` null: the one in force is taken off.
DeviceTask TaskOf(const device::Profile* profile, std::optional<base::WallTime> until,
                  std::vector<gpu::Gpu> gpus, bool dry_run);

api::DeviceReport ViewOf(const DeviceReport& report);
api::DeviceView ViewOf(const DeviceState& state);
api::DeviceProfile ViewOf(const device::Profile& profile);

}  // namespace gpuman::daemon
