#include "nvml_library.h"

#include <dlfcn.h>

#include <vector>

namespace gpuman::conformance {

const NvmlFunctions& Nvml() {
  static const NvmlFunctions functions = [] {
    NvmlFunctions f;
    void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return f;
#define GPUMAN_NVML_RESOLVE(since, name, parameters) \
  f.name = reinterpret_cast<abi::fn::name*>(::dlsym(library, #name));
    GPUMAN_NVML_FUNCTIONS(GPUMAN_NVML_RESOLVE)
#undef GPUMAN_NVML_RESOLVE
    return f;
  }();
  return functions;
}

std::string NvmlName(abi::nvmlReturn_t result) {
  switch (result) {
#define GPUMAN_NVML_NAME(name, value, text) \
  case abi::name:                           \
    return #name;
    GPUMAN_NVML_RETURNS(GPUMAN_NVML_NAME)
#undef GPUMAN_NVML_NAME
  }
  return "NVML error " + std::to_string(static_cast<int>(result));
}

void Fact(const std::string& key, abi::nvmlReturn_t value) { Fact(key, NvmlName(value)); }

abi::nvmlDevice_t NvmlDeviceOfCuda() {
  abi::CUuuid uuid{};
  abi::CUdevice device = 0;
  abi::nvmlDevice_t found = nullptr;
  EXPECT_OK(CU(cuDeviceGet, &device, 0));
  EXPECT_OK(CU(cuDeviceGetUuid_v2, &uuid, device));
  EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetHandleByUUID, driver::FormatUuid(uuid).c_str(), &found));
  return found;
}

std::optional<std::uint64_t> NvmlMemoryOf(int pid) {
  const auto device = NvmlDeviceOfCuda();
  std::vector<abi::nvmlProcessInfo_v2_t> processes(256);
  auto count = static_cast<unsigned>(processes.size());
  EXPECT_ML(NVML_SUCCESS, ML(nvmlDeviceGetComputeRunningProcesses_v3, device, &count, processes.data()));
  for (unsigned i = 0; i < count && i < processes.size(); ++i)
    if (processes[i].pid == static_cast<unsigned>(pid)) return processes[i].usedGpuMemory;
  return std::nullopt;
}

}  // namespace gpuman::conformance
