// Power, temperature, fans, the bus.
#include <algorithm>

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"
#include "sim/nvml/readings.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

nvmlReturn_t SetLimit(const Gpu& gpu, unsigned milliwatts) {
  if (!gpu.Has(kFeaturePowerLimit)) return NVML_ERROR_NOT_SUPPORTED;
  if (milliwatts < gpu.fixed.power_min_mw || milliwatts > gpu.fixed.power_max_mw) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  gpu.now.power_limit_mw.store(milliwatts);
  return NVML_SUCCESS;
}

unsigned InjectedOr(const Signed64& reading, unsigned otherwise) {
  const std::int64_t value = reading.load();
  return value == kNotInjected ? otherwise : static_cast<unsigned>(value);
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return gpu.Has(kFeaturePowerReading) ? Give(milliwatts, PowerMilliwatts(gpu)) : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return gpu.Has(kFeaturePowerLimit) ? Give(mode, NVML_FEATURE_ENABLED) : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned* milliwatts) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return gpu.Has(kFeaturePowerLimit) ? Give(milliwatts, gpu.now.power_limit_mw.load())
                                       : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned* least,
                                                          unsigned* most) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (AnyNull(least, most)) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu.Has(kFeaturePowerConstraints)) return NVML_ERROR_NOT_SUPPORTED;
    *least = gpu.fixed.power_min_mw;
    return Give(most, gpu.fixed.power_max_mw);
  });
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned* milliwatts) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return gpu.Has(kFeaturePowerConstraints) ? Give(milliwatts, gpu.fixed.power_default_mw)
                                             : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned* milliwatts) {
  return OnDevice(__func__, device,
                  [&](const Gpu& gpu) { return Give(milliwatts, gpu.now.power_limit_mw.load()); });
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned milliwatts) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) { return SetLimit(gpu, milliwatts); });
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t* value) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (value == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (value->version != nvmlPowerValue_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return value->powerScope == 0 ? SetLimit(gpu, value->powerValueMw) : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* millijoules) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return gpu.Has(kFeatureEnergy) ? Give(millijoules, EnergyMillijoules(gpu)) : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned* celsius) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return sensor == NVML_TEMPERATURE_GPU ? Give(celsius, TemperatureCelsius(gpu))
                                          : NVML_ERROR_INVALID_ARGUMENT;
  });
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t* reading) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (reading == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (reading->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (reading->sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
    return Give(&reading->temperature, TemperatureCelsius(gpu));
  });
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t* margin) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (margin == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (margin->version != nvmlMarginTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (!gpu.Has(kFeatureTemperatureLimit)) return NVML_ERROR_NOT_SUPPORTED;
    const int above_idle = TemperatureCelsius(gpu) - gpu.fixed.temperature_idle_c;
    return Give(&margin->marginTemperature, gpu.fixed.tlimit_idle_margin_c - above_idle);
  });
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold,
                                               unsigned* celsius) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (threshold >= NVML_TEMPERATURE_THRESHOLD_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
    const std::int32_t value = gpu.fixed.thresholds_c[threshold];
    return value == kNoThreshold ? NVML_ERROR_NOT_SUPPORTED : Give(celsius, value);
  });
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned* percent) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return gpu.Has(kFeatureFan) ? Give(percent, InjectedOr(gpu.now.fan_percent, 30))
                                : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned* generation) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return Give(generation, InjectedOr(gpu.now.pcie_gen, gpu.fixed.pcie_max_gen));
  });
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned* generation) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) { return Give(generation, gpu.fixed.pcie_max_gen); });
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned* lanes) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return Give(lanes, InjectedOr(gpu.now.pcie_width, gpu.fixed.pcie_max_width));
  });
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned* lanes) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) { return Give(lanes, gpu.fixed.pcie_max_width); });
}
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned* replays) {
  return OnDevice(__func__, device,
                  [&](const Gpu& gpu) { return Give(replays, gpu.now.pcie_replays.load()); });
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
                                         unsigned* kb_a_second) {
  return OnDevice(__func__, device, [&](const Gpu&) {
    if (counter > NVML_PCIE_UTIL_RX_BYTES) return NVML_ERROR_INVALID_ARGUMENT;
    // The values of an idle H200; copies do not count.
    return Give(kb_a_second, counter == NVML_PCIE_UTIL_TX_BYTES ? 1045u : 578u);
  });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
