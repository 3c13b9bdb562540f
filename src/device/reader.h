// Reads the settings of a GPU through NVML. A call may hang, and all of one GPU takes some milliseconds: for
// a worker thread.
#pragma once

#include <set>
#include <string>

#include "device/reading.h"
#include "driver/nvml.h"

namespace gpuman::device {

// Everything there is to know. An error: the GPU cannot be talked to.
base::Result<Reading> ReadDevice(const driver::Nvml& nvml, const std::string& uuid);

// What is needed to see whether these are as they should be, and no more.
base::Result<Reading> ReadSettings(const driver::Nvml& nvml, const std::string& uuid,
                                   const std::set<Setting>& settings);

}  // namespace gpuman::device
