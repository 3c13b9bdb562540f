// Field values: the same readings by number, each with its own status.
#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"
#include "sim/nvml/readings.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

nvmlReturn_t Unsigned(nvmlFieldValue_t& field, std::uint32_t value) {
  field.valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
  field.value.uiVal = value;
  return NVML_SUCCESS;
}

nvmlReturn_t Wide(nvmlFieldValue_t& field, std::uint64_t value) {
  field.valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
  field.value.ullVal = value;
  return NVML_SUCCESS;
}

nvmlReturn_t Signed(nvmlFieldValue_t& field, std::int32_t value) {
  field.valueType = NVML_VALUE_TYPE_SIGNED_INT;
  field.value.siVal = value;
  return NVML_SUCCESS;
}

// The feature that a field needs; 0 = none. False: the field does not exist.
bool FeatureOf(unsigned field, std::uint64_t& feature) {
  feature = 0;
  switch (field) {
    case NVML_FI_DEV_ECC_CURRENT:
    case NVML_FI_DEV_ECC_PENDING:
      feature = kFeatureEcc;
      return true;
    case NVML_FI_DEV_MEMORY_TEMP:
      feature = kFeatureMemoryTemperature;
      return true;
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
      feature = kFeatureEnergy;
      return true;
    case NVML_FI_DEV_REMAPPED_COR:
    case NVML_FI_DEV_REMAPPED_UNC:
    case NVML_FI_DEV_REMAPPED_PENDING:
    case NVML_FI_DEV_REMAPPED_FAILURE:
      feature = kFeatureRemappedRows;
      return true;
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
      feature = kFeaturePowerReading;
      return true;
    case NVML_FI_DEV_POWER_MIN_LIMIT:
    case NVML_FI_DEV_POWER_MAX_LIMIT:
    case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
    case NVML_FI_DEV_POWER_CURRENT_LIMIT:
    case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
      feature = kFeaturePowerConstraints;
      return true;
    case NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT:
    case NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT:
    case NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT:
    case NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT:
      feature = kFeatureTemperatureLimit;
      return true;
    case NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
    case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
      return true;
    default:
      return false;
  }
}

// The one-second average: on an idle H200 it differs from the present value.
unsigned AveragePower(const Gpu& gpu) {
  const unsigned now = PowerMilliwatts(gpu);
  return now == gpu.fixed.power_idle_mw ? gpu.fixed.power_idle_average_mw : now;
}

nvmlReturn_t Read(const Gpu& gpu, nvmlFieldValue_t& field) {
  std::uint64_t feature = 0;
  if (!FeatureOf(field.fieldId, feature)) return NVML_ERROR_INVALID_ARGUMENT;
  if (!gpu.Has(feature)) return NVML_ERROR_NOT_SUPPORTED;
  switch (field.fieldId) {
    case NVML_FI_DEV_ECC_CURRENT:
      return Wide(field, gpu.now.ecc_current.load());
    case NVML_FI_DEV_ECC_PENDING:
      return Wide(field, gpu.now.ecc_pending.load());
    case NVML_FI_DEV_MEMORY_TEMP:
      return Unsigned(field, static_cast<unsigned>(MemoryTemperatureCelsius(gpu)));
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
      return Wide(field, EnergyMillijoules(gpu));
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
      Unsigned(field, gpu.fixed.nvlinks);
      return gpu.fixed.nvlinks == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    case NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL:
      Wide(field, 0);
      return gpu.fixed.nvlinks == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    case NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL:
      Wide(field, gpu.now.nvlink_crc_errors.load());
      return gpu.fixed.nvlinks == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
      return Unsigned(field, gpu.now.pcie_replays.load());
    case NVML_FI_DEV_REMAPPED_COR:
      return Wide(field, gpu.now.remapped_correctable.load());
    case NVML_FI_DEV_REMAPPED_UNC:
      return Wide(field, gpu.now.remapped_uncorrectable.load());
    case NVML_FI_DEV_REMAPPED_PENDING:
      return Wide(field, gpu.now.remap_pending.load());
    case NVML_FI_DEV_REMAPPED_FAILURE:
      return Wide(field, gpu.now.remap_failed.load());
    case NVML_FI_DEV_POWER_AVERAGE:
      return Unsigned(field, AveragePower(gpu));
    case NVML_FI_DEV_POWER_INSTANT:
      return Unsigned(field, PowerMilliwatts(gpu));
    case NVML_FI_DEV_POWER_MIN_LIMIT:
      return Unsigned(field, gpu.fixed.power_min_mw);
    case NVML_FI_DEV_POWER_MAX_LIMIT:
      return Unsigned(field, gpu.fixed.power_max_mw);
    case NVML_FI_DEV_POWER_DEFAULT_LIMIT:
      return Unsigned(field, gpu.fixed.power_default_mw);
    case NVML_FI_DEV_POWER_CURRENT_LIMIT:
    case NVML_FI_DEV_POWER_REQUESTED_LIMIT:
      return Unsigned(field, gpu.now.power_limit_mw.load());
    case NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT:
      return Signed(field, gpu.fixed.tlimit_shutdown_c);
    case NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT:
      return Signed(field, gpu.fixed.tlimit_slowdown_c);
    case NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT:
      return Signed(field, gpu.fixed.tlimit_memory_max_c);
    case NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT:
      return Signed(field, gpu.fixed.tlimit_max_operating_c);
    case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
      return Unsigned(field, gpu.now.recovery_action.load());
    default:
      return NVML_ERROR_INVALID_ARGUMENT;
  }
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (values == nullptr || count < 1) return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; ++i) {
      values[i].timestamp = static_cast<long long>(RealtimeUs());
      values[i].latencyUsec = 0;
      values[i].nvmlReturn = Read(gpu, values[i]);
    }
    return NVML_SUCCESS;
  });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
