// Persistence, compute mode, accounting, MIG mode.
#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"
#include "sim/nvml/readings.h"

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
    if (mode == NVML_COMPUTEMODE_EXCLUSIVE_THREAD) return NVML_ERROR_NOT_SUPPORTED;  // gone since CUDA 8
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

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (AnyNull(current, pending)) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu.Has(kFeatureMig)) return NVML_ERROR_NOT_SUPPORTED;
    *current = gpu.now.mig_current.load();
    return Give(pending, gpu.now.mig_pending.load());
  });
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t* activation) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (activation == nullptr || mode > NVML_DEVICE_MIG_ENABLE) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu.Has(kFeatureMig)) return NVML_ERROR_NOT_SUPPORTED;
    gpu.now.mig_pending.store(mode);
    // A device in use keeps its mode until it is reset.
    const bool busy = HasContexts(gpu);
    if (!busy) gpu.now.mig_current.store(mode);
    return Give(activation, busy ? NVML_ERROR_IN_USE : NVML_SUCCESS);
  });
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned* is_mig) {
  return OnDevice(__func__, device, [&](const Gpu&) { return Give(is_mig, 0u); });
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned* count) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return Give(count, gpu.Has(kFeatureMig) ? gpu.fixed.mig_slices : 0u);
  });
}

// No instance is ever made: these answer as a real device without instances does.
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned, nvmlDevice_t*) {
  return OnDevice(__func__, device, [](const Gpu& gpu) {
    return gpu.Has(kFeatureMig) ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NOT_SUPPORTED;
  });
}
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t*) {
  return OnDevice(__func__, device, [](const Gpu&) { return NVML_ERROR_INVALID_ARGUMENT; });
}
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned*) {
  return OnDevice(__func__, device, [](const Gpu&) { return NVML_ERROR_NOT_SUPPORTED; });
}
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned*) {
  return OnDevice(__func__, device, [](const Gpu&) { return NVML_ERROR_NOT_SUPPORTED; });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
