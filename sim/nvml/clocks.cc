// Clocks: present, maximal, supported, locked; performance state and the reasons for lower clocks.
#include <algorithm>
#include <vector>

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"
#include "sim/nvml/readings.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

ClockKind KindOf(nvmlClockType_t type) { return static_cast<ClockKind>(type); }

bool IsSupportedMemoryClock(const GpuStatic& gpu, unsigned mhz) {
  return mhz != 0 && std::find(gpu.memory_clocks_mhz.begin(), gpu.memory_clocks_mhz.end(), mhz) !=
                         gpu.memory_clocks_mhz.end();
}

bool IsSupportedGraphicsClock(const GpuStatic& gpu, unsigned mhz) {
  const unsigned highest = gpu.clock_max_mhz[0];
  return mhz >= gpu.graphics_clock_min_mhz && mhz <= highest &&
         (highest - mhz) % gpu.graphics_clock_step_mhz == 0;
}

nvmlReturn_t GiveList(const std::vector<unsigned>& values, unsigned* count, unsigned* to) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned room = *count;
  *count = static_cast<unsigned>(values.size());
  if (to == nullptr || values.size() > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  std::copy(values.begin(), values.end(), to);
  return NVML_SUCCESS;
}

// Application clocks exist for graphics (and SM, which follows it) and memory.
nvmlReturn_t GiveApplicationClock(const Gpu& gpu, nvmlClockType_t type, unsigned* mhz, unsigned graphics,
                                  unsigned memory) {
  if (type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  if (!gpu.Has(kFeatureApplicationClocks) || type == NVML_CLOCK_VIDEO) return NVML_ERROR_NOT_SUPPORTED;
  return Give(mhz, type == NVML_CLOCK_MEM ? memory : graphics);
}

nvmlReturn_t LockClocks(const char* function, nvmlDevice_t device, std::uint64_t feature,
                        Word32 GpuDynamic::*lowest, Word32 GpuDynamic::*highest, unsigned min_mhz,
                        unsigned max_mhz) {
  return ChangeDevice(function, device, [&](const Gpu& gpu) {
    if (!gpu.Has(feature)) return NVML_ERROR_NOT_SUPPORTED;
    if (min_mhz > max_mhz) return NVML_ERROR_INVALID_ARGUMENT;
    (gpu.now.*lowest).store(min_mhz);
    (gpu.now.*highest).store(max_mhz);
    return NVML_SUCCESS;
  });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* mhz) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
    return Give(mhz, ClockMhz(gpu, KindOf(type)));
  });
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned* mhz) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
    return Give(mhz, gpu.fixed.clock_max_mhz[type]);
  });
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned* mhz) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return GiveApplicationClock(gpu, type, mhz, gpu.now.application_graphics_mhz.load(),
                                gpu.now.application_memory_mhz.load());
  });
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type, unsigned* mhz) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return GiveApplicationClock(gpu, type, mhz, gpu.fixed.clock_max_mhz[NVML_CLOCK_GRAPHICS],
                                gpu.fixed.clock_max_mhz[NVML_CLOCK_MEM]);
  });
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id, unsigned* mhz) {
  switch (id) {
    case NVML_CLOCK_ID_CURRENT:
      return nvmlDeviceGetClockInfo(device, type, mhz);
    case NVML_CLOCK_ID_APP_CLOCK_TARGET:
      return nvmlDeviceGetApplicationsClock(device, type, mhz);
    case NVML_CLOCK_ID_APP_CLOCK_DEFAULT:
      return nvmlDeviceGetDefaultApplicationsClock(device, type, mhz);
    case NVML_CLOCK_ID_CUSTOMER_BOOST_MAX:
      return nvmlDeviceGetMaxClockInfo(device, type, mhz);
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned* count, unsigned* mhz) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    std::vector<unsigned> clocks;
    for (const unsigned clock : gpu.fixed.memory_clocks_mhz) {
      if (clock != 0) clocks.push_back(clock);
    }
    return GiveList(clocks, count, mhz);
  });
}

nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned memory_mhz, unsigned* count,
                                                  unsigned* mhz) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (!IsSupportedMemoryClock(gpu.fixed, memory_mhz)) return NVML_ERROR_NOT_FOUND;
    std::vector<unsigned> clocks;
    for (unsigned clock = gpu.fixed.clock_max_mhz[0]; clock >= gpu.fixed.graphics_clock_min_mhz;
         clock -= gpu.fixed.graphics_clock_step_mhz) {
      clocks.push_back(clock);
    }
    return GiveList(clocks, count, mhz);
  });
}

nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned min_mhz, unsigned max_mhz) {
  return LockClocks(__func__, device, kFeatureLockedGpuClocks, &GpuDynamic::locked_graphics_min_mhz,
                    &GpuDynamic::locked_graphics_max_mhz, min_mhz, max_mhz);
}
nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device) {
  return LockClocks(__func__, device, kFeatureLockedGpuClocks, &GpuDynamic::locked_graphics_min_mhz,
                    &GpuDynamic::locked_graphics_max_mhz, 0, 0);
}
nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned min_mhz, unsigned max_mhz) {
  return LockClocks(__func__, device, kFeatureLockedMemoryClocks, &GpuDynamic::locked_memory_min_mhz,
                    &GpuDynamic::locked_memory_max_mhz, min_mhz, max_mhz);
}
nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device) {
  return LockClocks(__func__, device, kFeatureLockedMemoryClocks, &GpuDynamic::locked_memory_min_mhz,
                    &GpuDynamic::locked_memory_max_mhz, 0, 0);
}

nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned memory_mhz,
                                             unsigned graphics_mhz) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureApplicationClocks)) return NVML_ERROR_NOT_SUPPORTED;
    if (!IsSupportedMemoryClock(gpu.fixed, memory_mhz) ||
        !IsSupportedGraphicsClock(gpu.fixed, graphics_mhz)) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    gpu.now.application_memory_mhz.store(memory_mhz);
    gpu.now.application_graphics_mhz.store(graphics_mhz);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureApplicationClocks)) return NVML_ERROR_NOT_SUPPORTED;
    gpu.now.application_memory_mhz.store(gpu.fixed.clock_max_mhz[NVML_CLOCK_MEM]);
    gpu.now.application_graphics_mhz.store(gpu.fixed.clock_max_mhz[NVML_CLOCK_GRAPHICS]);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* state) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    // Data-centre GPUs stay in P0; an idle GeForce goes to P8.
    const bool rests = gpu.fixed.brand == NVML_BRAND_GEFORCE && !HasContexts(gpu);
    return Give(state, rests ? NVML_PSTATE_8 : NVML_PSTATE_0);
  });
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) { return Give(reasons, ThrottleReasons(gpu)); });
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) { return Give(reasons, ThrottleReasons(gpu)); });
}

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return OnDevice(__func__, device, [&](const Gpu&) { return Give(reasons, 0x1ffull); });
}
nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long* reasons) {
  return OnDevice(__func__, device, [&](const Gpu&) { return Give(reasons, 0x1ffull); });
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy,
                                          nvmlViolationTime_t* time) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (time == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu.Has(kFeatureViolations) || policy >= gpu.now.violation_ns.size())
      return NVML_ERROR_NOT_SUPPORTED;
    *time = {RealtimeUs(), gpu.now.violation_ns[policy].load()};
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
