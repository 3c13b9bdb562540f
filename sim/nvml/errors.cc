// ECC, remapped rows, retired pages.
#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

// Runs `body` with the counters of one kind, if the device counts ECC errors now.
template <typename Body>
nvmlReturn_t OnCounters(const char* function, nvmlDevice_t device, nvmlMemoryErrorType_t type,
                        nvmlEccCounterType_t counter, Body body) {
  return OnDevice(function, device, [&](const Gpu& gpu) {
    if (type > NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter > NVML_AGGREGATE_ECC) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (!gpu.Has(kFeatureEcc) || gpu.now.ecc_current.load() == 0) return NVML_ERROR_NOT_SUPPORTED;
    return body(gpu.now.ecc[counter][type]);
  });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current,
                                  nvmlEnableState_t* pending) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (AnyNull(current, pending)) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu.Has(kFeatureEcc)) return NVML_ERROR_NOT_SUPPORTED;
    *current = Enabled(gpu.now.ecc_current.load() != 0);
    return Give(pending, Enabled(gpu.now.ecc_pending.load() != 0));
  });
}

nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return gpu.Has(kFeatureEcc) ? Give(mode, NVML_FEATURE_ENABLED) : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, nvmlEnableState_t mode) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureEcc)) return NVML_ERROR_NOT_SUPPORTED;
    if (mode > NVML_FEATURE_ENABLED) return NVML_ERROR_INVALID_ARGUMENT;
    gpu.now.ecc_pending.store(mode);  // in effect after a reset
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t counter, unsigned long long* errors) {
  return OnCounters(__func__, device, type, counter, [&](const auto& by_location) {
    std::uint64_t sum = 0;
    for (const Word64& count : by_location) sum += count.load();
    return Give(errors, sum);
  });
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                             unsigned long long* errors) {
  return OnCounters(__func__, device, type, counter, [&](const auto& by_location) {
    if (location >= NVML_MEMORY_LOCATION_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
    // The locations that devices with row remapping distinguish.
    if (location != NVML_MEMORY_LOCATION_DRAM && location != NVML_MEMORY_LOCATION_SRAM) {
      return NVML_ERROR_NOT_SUPPORTED;
    }
    return Give(errors, by_location[location].load());
  });
}

nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, nvmlEccCounterType_t counter) {
  return ChangeDevice(__func__, device, [&](const Gpu& gpu) {
    if (counter > NVML_AGGREGATE_ECC) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu.Has(kFeatureEcc) || gpu.now.ecc_current.load() == 0) return NVML_ERROR_NOT_SUPPORTED;
    for (auto& type : gpu.now.ecc[counter]) {
      for (Word64& count : type) count.store(0);
    }
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_v1_t* status) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (status == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (status->version != nvmlEccSramErrorStatus_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    // Devices that remap rows count errors in on-chip memory separately.
    if (!gpu.Has(kFeatureEcc) || !gpu.Has(kFeatureRemappedRows)) return NVML_ERROR_NOT_SUPPORTED;
    nvmlEccSramErrorStatus_v1_t told{};
    told.version = status->version;
    told.bThresholdExceeded = static_cast<unsigned>(gpu.now.sram_threshold.load());
    return Give(status, told);
  });
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned* correctable, unsigned* uncorrectable,
                                       unsigned* pending, unsigned* failed) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (AnyNull(correctable, uncorrectable, pending, failed)) return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu.Has(kFeatureRemappedRows)) return NVML_ERROR_NOT_SUPPORTED;
    *correctable = gpu.now.remapped_correctable.load();
    *uncorrectable = gpu.now.remapped_uncorrectable.load();
    *pending = gpu.now.remap_pending.load();
    return Give(failed, gpu.now.remap_failed.load());
  });
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device,
                                               nvmlRowRemapperHistogramValues_t* values) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureRemappedRows)) return NVML_ERROR_NOT_SUPPORTED;
    const unsigned remapped = gpu.now.remapped_correctable.load() + gpu.now.remapped_uncorrectable.load();
    const unsigned touched = remapped < gpu.fixed.remap_banks ? remapped : gpu.fixed.remap_banks;
    return Give(values, nvmlRowRemapperHistogramValues_t{gpu.fixed.remap_banks - touched, touched, 0, 0, 0});
  });
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned* count,
                                       unsigned long long* addresses) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureRetiredPages)) return NVML_ERROR_NOT_SUPPORTED;
    if (count == nullptr || cause > NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR) {
      return NVML_ERROR_INVALID_ARGUMENT;
    }
    const unsigned pages = cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR
                               ? gpu.now.retired_double_bit.load()
                               : gpu.now.retired_single_bit.load();
    const unsigned room = *count;
    *count = pages;
    if (pages > room || (pages != 0 && addresses == nullptr)) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned page = 0; page < pages; ++page) addresses[page] = (page + 1) * 0x10000ull;
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t* pending) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.Has(kFeatureRetiredPages)) return NVML_ERROR_NOT_SUPPORTED;
    return Give(pending, Enabled(gpu.now.retired_pending.load() != 0));
  });
}

}  // extern "C"
}  // namespace gpuman::driver::abi
