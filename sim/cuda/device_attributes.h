// The answers of cuDeviceGetAttribute.
#pragma once

#include "sim/cuda/device.h"

namespace gpuman::sim::cuda {

// INVALID_VALUE for an attribute that CUDA 13.0 does not know.
CUresult DeviceAttribute(const Device& device, CUdevice_attribute attribute, int& value);

}  // namespace gpuman::sim::cuda
