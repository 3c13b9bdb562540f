// Reads through NVML how a GPU can be split, and its present instances. Calls of the driver may hang.
#pragma once

#include <string>

#include "base/result.h"
#include "driver/nvml.h"
#include "mig/device.h"

namespace gpuman::mig {

// kNotSupported: the GPU cannot be split. kPermissionDenied: the driver reports this only to root.
base::Result<GpuMigState> ReadDevice(const driver::Nvml& nvml, const std::string& uuid);

// The handle of the GPU instance at this place. kNotFound: there is no instance.
base::Result<driver::abi::nvmlGpuInstance_t> FindInstance(const driver::Nvml& nvml, driver::NvmlDevice device,
                                                          const MigProfile& profile,
                                                          const MigPlacement& placement);

// A kind of compute instance that a GPU instance can have.
struct ComputeProfile {
  unsigned id = 0;
  unsigned slices = 0;
  unsigned most = 0;
  unsigned multiprocessors = 0;
};
base::Result<std::vector<ComputeProfile>> ComputeProfilesOf(const driver::Nvml& nvml,
                                                            driver::abi::nvmlGpuInstance_t instance);
base::Result<std::vector<driver::abi::nvmlComputeInstance_t>> ComputesOf(
    const driver::Nvml& nvml, driver::abi::nvmlGpuInstance_t instance, const ComputeProfile& profile);

// Calls a function of the driver that returns only its status. `function` is null if this driver lacks the
// function.
template <typename... Parameters, typename... Arguments>
base::Result<> Call(const char* name, driver::abi::nvmlReturn_t (*function)(Parameters...),
                    Arguments... arguments) {
  const auto status =
      function == nullptr ? driver::abi::NVML_ERROR_FUNCTION_NOT_FOUND : function(arguments...);
  if (status == driver::abi::NVML_SUCCESS) return {};
  return base::Fail(driver::Nvml::Describe(name, status));
}
#define GPUMAN_MIG_CALL(nvml, function, ...) \
  ::gpuman::mig::Call(#function, (nvml).calls().function __VA_OPT__(, ) __VA_ARGS__)

// Makes the name that NVIDIA's tools give a profile, for drivers that do not report names: from the profile's
// slices, and from its memory in eighths of the GPU's memory, in GiB. `special`: the suffix, "+me".
std::string NameOf(unsigned slices, base::Bytes memory, base::Bytes whole, const std::string& special);

}  // namespace gpuman::mig
