// MIG: the mode, the profiles of a GPU, and MIG devices.
#include <cstdio>
#include <cstring>

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"
#include "sim/nvml/readings.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

// No GPU has a higher profile index (as of the newest header).
constexpr unsigned kProfileCount = 18;

bool IsOn(const Gpu& gpu) { return gpu.Has(kFeatureMig) && gpu.now.mig_current.load() != 0; }

// Runs `body(profile)` for the profile with this NVML_GPU_INSTANCE_PROFILE_….
template <typename Body>
nvmlReturn_t OnProfile(const Gpu& gpu, unsigned index, Body body) {
  if (index >= kProfileCount) return NVML_ERROR_INVALID_ARGUMENT;
  for (const MigProfile& profile : MigProfilesOf(gpu.shared, gpu.index))
    if (profile.index == index) return body(profile);
  return NVML_ERROR_NOT_SUPPORTED;
}

unsigned long long MemoryMib(const Gpu& gpu, const MigProfile& profile) {
  return MigMemory(gpu.shared, gpu.index, profile) >> 20;
}

}  // namespace

extern "C" {

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
    if (gpu.now.mig_current.load() == mode) return Give(activation, NVML_SUCCESS);
    // A device in use keeps its mode until a reset.
    const bool busy = HasContexts(gpu) || !MigInstances(gpu.shared, gpu.index).empty();
    if (busy) return Give(activation, NVML_ERROR_IN_USE);
    if (gpu.now.mig_needs_reset.load() != 0) return Give(activation, NVML_ERROR_RESET_REQUIRED);
    gpu.now.mig_current.store(mode);
    return Give(activation, NVML_SUCCESS);
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned index,
                                                 nvmlGpuInstanceProfileInfo_t* info) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    return OnProfile(gpu, index, [&](const MigProfile& profile) {
      *info = {
          profile.id,       0, profile.slices, profile.most, profile.multiprocessors, profile.copy_engines,
          profile.decoders, 0, profile.jpegs,  profile.ofas, MemoryMib(gpu, profile)};
      return NVML_SUCCESS;
    });
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned index,
                                                  nvmlGpuInstanceProfileInfo_v2_t* info) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (info == nullptr || info->version != nvmlGpuInstanceProfileInfo_v2) return NVML_ERROR_INVALID_ARGUMENT;
    return OnProfile(gpu, index, [&](const MigProfile& profile) {
      *info = {nvmlGpuInstanceProfileInfo_v2,
               profile.id,
               0,
               profile.slices,
               profile.most,
               profile.multiprocessors,
               profile.copy_engines,
               profile.decoders,
               0,
               profile.jpegs,
               profile.ofas,
               MemoryMib(gpu, profile),
               {}};
      std::snprintf(info->name, sizeof info->name, "MIG %s", profile.name);
      return NVML_SUCCESS;
    });
  });
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned* is_mig) {
  return OnDeviceOrInstance(__func__, device,
                            [&](const Gpu& gpu) { return Give(is_mig, gpu.mig ? 1u : 0u); });
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned* count) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return Give(count, gpu.Has(kFeatureMig) ? gpu.fixed.mig_slices : 0u);
  });
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t* mig) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureMig)) return NVML_ERROR_NOT_SUPPORTED;
    if (index >= gpu.fixed.mig_slices) return NVML_ERROR_INVALID_ARGUMENT;
    const auto devices = MigDevices(gpu.shared, gpu.index);
    if (!IsOn(gpu) || index >= devices.size()) return NVML_ERROR_NOT_FOUND;
    return Give(mig, Session::Current()->HandleOf(devices[index]));
  });
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t* parent) {
  return OnDeviceOrInstance(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.mig) return NVML_ERROR_INVALID_ARGUMENT;
    return Give(parent, Session::Current()->HandleOf(gpu.mig->instance.gpu));
  });
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned* id) {
  return OnDeviceOrInstance(__func__, device, [&](const Gpu& gpu) {
    return gpu.mig ? Give(id, gpu.mig->instance.id) : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned* id) {
  return OnDeviceOrInstance(__func__, device, [&](const Gpu& gpu) {
    return gpu.mig ? Give(id, gpu.mig->compute.id) : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t* attributes) {
  return OnDeviceOrInstance(__func__, device, [&](const Gpu& gpu) {
    if (attributes == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu.mig) return NVML_ERROR_NOT_SUPPORTED;
    const MigProfile& profile = ProfileOf(gpu.shared, gpu.mig->instance);
    const unsigned slices = gpu.mig->compute.slices;
    *attributes = {profile.multiprocessors * slices / profile.slices,
                   profile.copy_engines,
                   profile.decoders,
                   0,
                   profile.jpegs,
                   profile.ofas,
                   profile.slices,
                   slices,
                   gpu.fixed.memory_total >> 20};
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
