// Limits of memory for cgroups, by the documentation of driver 615: no hardware that has them was at hand.
#include "sim/state/limits.h"

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

extern "C" {

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t* limits) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (limits == nullptr || limits->nameSpace == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const bool none = limits->hardLimit == NVML_DEVICE_MEMORY_LIMIT_MAX;
    if (limits->softLimit > limits->hardLimit || limits->softLimit > gpu.fixed.memory_total ||
        (!none && limits->hardLimit > gpu.fixed.memory_total))
      return NVML_ERROR_INVALID_ARGUMENT;
    const auto inode = InodeOf(limits->nameSpace);
    if (!inode) return NVML_ERROR_OPERATING_SYSTEM;
    const bool set =
        SetGroupLimit(gpu.shared, gpu.index, *inode, limits->nameSpace, limits->softLimit, limits->hardLimit);
    return set ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t* limits) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (limits == nullptr || limits->nameSpace == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const auto inode = InodeOf(limits->nameSpace);
    if (!inode) return NVML_ERROR_OPERATING_SYSTEM;
    const auto found = GroupLimitOf(gpu.shared, gpu.index, *inode);
    if (!found) return NVML_ERROR_NOT_FOUND;
    gpu.client.SweepDead();
    limits->softLimit = found->soft;
    limits->hardLimit = found->hard;
    limits->currentUsed = UsedByGroup(gpu.shared, gpu.index, *inode);
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
