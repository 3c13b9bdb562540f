// Initialisation, the system's versions, handles.
#include <fcntl.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

std::string BusId(const GpuStatic& gpu) {
  char text[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
  std::snprintf(text, sizeof text, "%08X:%02X:%02X.0", gpu.pci_domain, gpu.pci_bus, gpu.pci_device);
  return text;
}

template <typename Matches>
nvmlReturn_t FindDevice(const char* function, const char* what, nvmlDevice_t* device, Matches matches) {
  return OnSystem(function, [&](Session& session) {
    if (AnyNull(what, device)) return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned index = 0; index < session.shared().gpus; ++index) {
      if (!matches(session.shared().gpu_static[index])) continue;
      if (session.shared().gpu[index].lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
      return Give(device, session.HandleOf(index));
    }
    return NVML_ERROR_NOT_FOUND;
  });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2(void) { return Session::Init(); }
nvmlReturn_t nvmlInit(void) { return Session::Init(); }
nvmlReturn_t nvmlInitWithFlags(unsigned) { return Session::Init(); }
nvmlReturn_t nvmlShutdown(void) { return Session::Shutdown(); }

const char* nvmlErrorString(nvmlReturn_t status) {
  switch (status) {
#define GPUMAN_NVML_TEXT(name, value, text) \
  case name:                                \
    return text;
    GPUMAN_NVML_RETURNS(GPUMAN_NVML_TEXT)
#undef GPUMAN_NVML_TEXT
  }
  return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return OnSystem(__func__,
                  [&](Session& session) { return GiveText(version, size, session.shared().driver_version); });
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned size) {
  return OnSystem(__func__, [&](Session& session) {
    const std::string text =
        std::to_string(session.shared().cuda_version / 1000) + "." + session.shared().driver_version;
    return GiveText(version, size, text.c_str());
  });
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return OnSystem(__func__, [&](Session& session) { return Give(version, session.shared().cuda_version); });
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char* name, unsigned size) {
  return OnSystem(__func__, [&](Session&) {
    if (name == nullptr || size == 0) return NVML_ERROR_INVALID_ARGUMENT;
    const std::string path = "/proc/" + std::to_string(pid) + "/cmdline";
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_FOUND;
    const ssize_t got = read(fd, name, size - 1);
    close(fd);
    name[got > 0 ? got : 0] = '\0';
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlUnitGetCount(unsigned* count) {
  return OnSystem(__func__, [&](Session&) { return Give(count, 0u); });
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  return OnSystem(__func__, [&](Session& session) { return Give(count, session.shared().gpus); });
}
nvmlReturn_t nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  return OnSystem(__func__, [&](Session& session) {
    if (index >= session.shared().gpus) return NVML_ERROR_INVALID_ARGUMENT;
    if (session.shared().gpu[index].lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
    return Give(device, session.HandleOf(index));
  });
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  if (uuid != nullptr && std::strncmp(uuid, "MIG-", 4) == 0) {
    return OnSystem(__func__, [&](Session& session) {
      const auto mig = FindMigDevice(session.shared(), uuid);
      return mig ? Give(device, session.HandleOf(*mig)) : NVML_ERROR_NOT_FOUND;
    });
  }
  return FindDevice(__func__, uuid, device,
                    [&](const GpuStatic& gpu) { return std::strcmp(gpu.uuid, uuid) == 0; });
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* device) {
  return FindDevice(__func__, serial, device, [&](const GpuStatic& gpu) {
    return (gpu.features & kFeatureSerial) != 0 && std::strcmp(gpu.serial, serial) == 0;
  });
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  return FindDevice(__func__, bus_id, device, [&](const GpuStatic& gpu) {
    const std::string full = BusId(gpu);  // also known with a domain of four digits
    return strcasecmp(full.c_str(), bus_id) == 0 || strcasecmp(full.c_str() + 4, bus_id) == 0;
  });
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *pci = {};
    pci->domain = gpu.fixed.pci_domain;
    pci->bus = gpu.fixed.pci_bus;
    pci->device = gpu.fixed.pci_device;
    pci->pciDeviceId = gpu.fixed.pci_device_id;
    pci->pciSubSystemId = gpu.fixed.pci_subsystem_id;
    const std::string bus_id = BusId(gpu.fixed);
    std::memcpy(pci->busId, bus_id.c_str(), bus_id.size() + 1);
    std::memcpy(pci->busIdLegacy, bus_id.c_str() + 4, bus_id.size() + 1 - 4);
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}

}  // extern "C"
}  // namespace gpuman::driver::abi
