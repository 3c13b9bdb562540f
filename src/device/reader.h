// Reads the settings of a GPU through NVML. A call of the driver may hang, and reading one GPU takes some
// milliseconds, so the daemon calls these functions in a worker thread.
#pragma once

#include <set>
#include <string>

#include "device/device_reading.h"
#include "driver/nvml.h"

namespace gpuman::device {

// Reads all settings. It returns an error if the GPU does not answer.
base::Result<DeviceReading> ReadDevice(const driver::Nvml& nvml, const std::string& uuid);

// Reads only what is needed to check these settings.
base::Result<DeviceReading> ReadSettings(const driver::Nvml& nvml, const std::string& uuid,
                                         const std::set<Setting>& settings);

}  // namespace gpuman::device
