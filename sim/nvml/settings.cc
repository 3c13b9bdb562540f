// Persistence, compute mode, accounting.
#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

extern "C" {

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return OnDevice(__func__, device,
                  [&](const Gpu& gpu) { return Give(mode, Enabled(gpu.now.persistence.load() != 0)); });
}

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (mode > NVML_FEATURE_ENABLED) return NVML_ERROR_INVALID_ARGUMENT;
    gpu.now.persistence.store(mode);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) { return Give(mode, gpu.now.compute_mode.load()); });
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (mode > NVML_COMPUTEMODE_EXCLUSIVE_PROCESS) return NVML_ERROR_INVALID_ARGUMENT;
    if (mode == NVML_COMPUTEMODE_EXCLUSIVE_THREAD) return NVML_ERROR_NOT_SUPPORTED;  // removed in CUDA 8
    gpu.now.compute_mode.store(mode);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureAccounting)) return NVML_ERROR_NOT_SUPPORTED;
    return Give(mode, Enabled(gpu.now.accounting.load() != 0));
  });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
