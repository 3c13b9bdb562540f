// The identity of a device: values that never change.
#include <cstring>

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

nvmlReturn_t TextOf(const char* function, nvmlDevice_t device, char* to, unsigned size,
                    const char* (*field)(const GpuStatic&)) {
  return OnDevice(function, device, [&](const Gpu& gpu) {
    const char* text = field(gpu.fixed);
    return *text == '\0' ? NVML_ERROR_NOT_SUPPORTED : GiveText(to, size, text);
  });
}

template <typename To, typename From>
nvmlReturn_t NumberOf(const char* function, nvmlDevice_t device, To* to, From GpuStatic::*field) {
  return OnDevice(function, device, [&](const Gpu& gpu) { return Give(to, gpu.fixed.*field); });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* to, unsigned size) {
  return OnDeviceOrInstance(__func__, device, [&](const Gpu& gpu) {
    return GiveText(to, size, gpu.mig ? MigName(gpu.shared, *gpu.mig).c_str() : gpu.fixed.name);
  });
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* to, unsigned size) {
  return OnDeviceOrInstance(__func__, device, [&](const Gpu& gpu) {
    if (!gpu.mig) return GiveText(to, size, gpu.fixed.uuid);
    return GiveText(to, size, MigUuid(gpu.shared, gpu.mig->instance, gpu.mig->compute.id).c_str());
  });
}
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* to, unsigned size) {
  return TextOf(__func__, device, to, size, [](const GpuStatic& gpu) -> const char* { return gpu.serial; });
}
nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* to, unsigned size) {
  return TextOf(__func__, device, to, size, [](const GpuStatic& gpu) -> const char* { return gpu.vbios; });
}
nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char* to, unsigned size) {
  return TextOf(__func__, device, to, size,
                [](const GpuStatic& gpu) -> const char* { return gpu.board_part_number; });
}
nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char* to, unsigned size) {
  return TextOf(__func__, device, to, size,
                [](const GpuStatic& gpu) -> const char* { return gpu.inforom_image; });
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* brand) {
  return NumberOf(__func__, device, brand, &GpuStatic::brand);
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned* minor) {
  return NumberOf(__func__, device, minor, &GpuStatic::minor_number);
}
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* architecture) {
  return NumberOf(__func__, device, architecture, &GpuStatic::architecture);
}
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned* cores) {
  return NumberOf(__func__, device, cores, &GpuStatic::cores);
}
nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned* bits) {
  return NumberOf(__func__, device, bits, &GpuStatic::memory_bus_width);
}
nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned* id) {
  return NumberOf(__func__, device, id, &GpuStatic::board_id);
}
nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t device, unsigned* id) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return gpu.Has(kFeatureMig) ? Give(id, gpu.fixed.module_id) : NVML_ERROR_NOT_SUPPORTED;
  });
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) { return Give(index, gpu.index); });
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (AnyNull(major, minor)) return NVML_ERROR_INVALID_ARGUMENT;
    *major = static_cast<int>(gpu.fixed.compute_major);
    return Give(minor, gpu.fixed.compute_minor);
  });
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned* multi) {
  return OnDevice(__func__, device, [&](const Gpu&) { return Give(multi, 0u); });
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t* mode) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    // The H200 of the profile belonged to a virtual machine.
    const bool passed_through = std::strcmp(gpu.shared.profile, "h200") == 0;
    return Give(
        mode, passed_through ? NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH : NVML_GPU_VIRTUALIZATION_MODE_NONE);
  });
}

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char* version) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    return GiveText(version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE, gpu.shared.driver_version);
  });
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  return OnDevice(__func__, device, [&](const Gpu&) { return Give(mode, NVML_FEATURE_DISABLED); });
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* active) {
  return OnDevice(__func__, device, [&](const Gpu&) { return Give(active, NVML_FEATURE_DISABLED); });
}

nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t device, nvmlDriverModel_t*, nvmlDriverModel_t*) {
  return OnDevice(__func__, device, [](const Gpu&) { return NVML_ERROR_NOT_SUPPORTED; });  // for Windows
}

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned*) {
  return OnDevice(__func__, device, [](const Gpu&) { return NVML_ERROR_NOT_SUPPORTED; });  // as on the H200
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t* active) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (gpu.fixed.nvlinks == 0) return NVML_ERROR_NOT_SUPPORTED;
    if (link >= gpu.fixed.nvlinks) return NVML_ERROR_INVALID_ARGUMENT;
    return Give(active, Enabled((gpu.now.nvlinks_down.load() >> link & 1) == 0));
  });
}

// The simulated links lead to switches without addresses.
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned, nvmlPciInfo_t*) {
  return OnDevice(__func__, device, [](const Gpu&) { return NVML_ERROR_NOT_SUPPORTED; });
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t what,
                                    nvmlGpuP2PStatus_t* status) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    const auto peer = Session::Current()->IndexOf(other);
    if (!peer) return NVML_ERROR_INVALID_ARGUMENT;
    const bool linked = (gpu.fixed.nvlink_peers >> *peer & 1) != 0 && *peer < gpu.shared.gpus;
    const bool there = what == NVML_P2P_CAPS_INDEX_NVLINK ? linked : gpu.Has(kFeaturePeerAccess);
    return Give(status, there ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED);
  });
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                 nvmlGpuTopologyLevel_t* level) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    const auto peer = Session::Current()->IndexOf(other);
    if (!peer) return NVML_ERROR_INVALID_ARGUMENT;
    const GpuStatic& there = gpu.shared.gpu_static[*peer];
    if (*peer == gpu.index) return Give(level, NVML_TOPOLOGY_INTERNAL);
    if (there.pcie_switch == gpu.fixed.pcie_switch) return Give(level, NVML_TOPOLOGY_SINGLE);
    return Give(level, there.numa_node == gpu.fixed.numa_node ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM);
  });
}

nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned* fans) {
  return NumberOf(__func__, device, fans, &GpuStatic::fans);
}

}  // extern "C"
}  // namespace gpuman::driver::abi
