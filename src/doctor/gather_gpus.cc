#include <utility>

#include "base/file.h"
#include "doctor/gather.h"
#include "driver/cuda.h"
#include "driver/nvml.h"

namespace gpuman::doctor {
namespace {

namespace abi = driver::abi;

// The value that `function` returns for a device; absent where the driver or the device does not have it.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> Get(Function* function, abi::nvmlDevice_t device, Arguments... arguments) {
  Value value{};
  if (!function || function(device, arguments..., &value) != abi::NVML_SUCCESS) return std::nullopt;
  return value;
}

std::optional<bool> IsOn(const std::optional<abi::nvmlEnableState_t>& state) {
  return state ? std::optional(*state == abi::NVML_FEATURE_ENABLED) : std::nullopt;
}

void GatherModes(const driver::NvmlCalls& calls, abi::nvmlDevice_t device, GpuFacts& gpu) {
  gpu.persistence = IsOn(Get<abi::nvmlEnableState_t>(calls.nvmlDeviceGetPersistenceMode, device));
  abi::nvmlEnableState_t now{}, pending{};
  if (calls.nvmlDeviceGetEccMode && calls.nvmlDeviceGetEccMode(device, &now, &pending) == abi::NVML_SUCCESS) {
    gpu.ecc = now == abi::NVML_FEATURE_ENABLED;
    gpu.ecc_pending = pending == abi::NVML_FEATURE_ENABLED;
  }
  unsigned mig = 0, mig_pending = 0;
  if (!calls.nvmlDeviceGetMigMode ||
      calls.nvmlDeviceGetMigMode(device, &mig, &mig_pending) != abi::NVML_SUCCESS)
    return;
  gpu.mig = mig == abi::NVML_DEVICE_MIG_ENABLE;
  gpu.mig_pending = mig_pending == abi::NVML_DEVICE_MIG_ENABLE;
  const auto most = Get<unsigned>(calls.nvmlDeviceGetMaxMigDeviceCount, device);
  if (!*gpu.mig || !most || !calls.nvmlDeviceGetMigDeviceHandleByIndex) return;
  gpu.mig_instances = 0;
  for (unsigned i = 0; i < *most; ++i) {
    abi::nvmlDevice_t instance{};
    if (calls.nvmlDeviceGetMigDeviceHandleByIndex(device, i, &instance) == abi::NVML_SUCCESS)
      ++*gpu.mig_instances;
  }
}

void GatherClocks(const driver::NvmlCalls& calls, abi::nvmlDevice_t device, GpuFacts& gpu) {
  auto reasons = Get<unsigned long long>(calls.nvmlDeviceGetCurrentClocksEventReasons, device);
  if (!reasons) reasons = Get<unsigned long long>(calls.nvmlDeviceGetCurrentClocksThrottleReasons, device);
  if (reasons) gpu.clock_reasons = *reasons;
  const auto held = [&](abi::nvmlPerfPolicyType_t policy) -> std::optional<std::uint64_t> {
    const auto time = Get<abi::nvmlViolationTime_t>(calls.nvmlDeviceGetViolationStatus, device, policy);
    return time ? std::optional<std::uint64_t>(time->violationTime) : std::nullopt;
  };
  gpu.thermal_ns = held(abi::NVML_PERF_POLICY_THERMAL);
  gpu.power_ns = held(abi::NVML_PERF_POLICY_POWER);
  gpu.app_clock = Get<unsigned>(calls.nvmlDeviceGetApplicationsClock, device, abi::NVML_CLOCK_GRAPHICS);
  gpu.default_app_clock =
      Get<unsigned>(calls.nvmlDeviceGetDefaultApplicationsClock, device, abi::NVML_CLOCK_GRAPHICS);
  gpu.power_limit = Get<unsigned>(calls.nvmlDeviceGetPowerManagementLimit, device);
  gpu.default_power_limit = Get<unsigned>(calls.nvmlDeviceGetPowerManagementDefaultLimit, device);
}

GpuFacts GpuAt(const driver::Nvml& nvml, unsigned index) {
  GpuFacts gpu;
  gpu.index = index;
  const auto device = nvml.DeviceAt(index);
  const auto info = device ? nvml.Info(*device) : driver::NvmlResult<driver::NvmlDeviceInfo>();
  if (!device || !info) {
    gpu.problem = device ? info.error().message : device.error().message;
    return gpu;
  }
  gpu.uuid = info->uuid;
  gpu.name = info->name;
  gpu.memory = info->memory;
  const auto& calls = nvml.calls();
  GatherModes(calls, *device, gpu);
  GatherClocks(calls, *device, gpu);
  gpu.link_width = Get<unsigned>(calls.nvmlDeviceGetCurrPcieLinkWidth, *device);
  gpu.most_link_width = Get<unsigned>(calls.nvmlDeviceGetMaxPcieLinkWidth, *device);
  gpu.link_gen = Get<unsigned>(calls.nvmlDeviceGetCurrPcieLinkGeneration, *device);
  gpu.most_link_gen = Get<unsigned>(calls.nvmlDeviceGetMaxPcieLinkGeneration, *device);
  if (const auto use = nvml.Utilization(*device)) gpu.utilization = use->gpu;
  return gpu;
}

std::optional<bool> Reaches(const driver::NvmlCalls& calls, abi::nvmlDevice_t device,
                            abi::nvmlDevice_t other) {
  for (const auto access : {abi::NVML_P2P_CAPS_INDEX_READ, abi::NVML_P2P_CAPS_INDEX_WRITE}) {
    auto status = abi::NVML_P2P_STATUS_UNKNOWN;
    if (!calls.nvmlDeviceGetP2PStatus ||
        calls.nvmlDeviceGetP2PStatus(device, other, access, &status) != abi::NVML_SUCCESS ||
        status == abi::NVML_P2P_STATUS_UNKNOWN)
      return std::nullopt;
    if (status != abi::NVML_P2P_STATUS_OK) return false;
  }
  return true;
}

// nullopt: the driver does not tell it of some pair.
std::optional<std::vector<NoPeerAccess>> ApartOf(const driver::Nvml& nvml,
                                                 const std::vector<GpuFacts>& gpus) {
  std::vector<NoPeerAccess> apart;
  for (const auto& gpu : gpus) {
    for (const auto& other : gpus) {
      const bool asked = gpu.index < other.index && gpu.problem.empty() && other.problem.empty() &&
                         !gpu.mig.value_or(false) && !other.mig.value_or(false);
      if (!asked) continue;
      const auto device = nvml.DeviceAt(gpu.index), second = nvml.DeviceAt(other.index);
      if (!device || !second) return std::nullopt;
      const auto there = Reaches(nvml.calls(), *device, *second);
      const auto back = Reaches(nvml.calls(), *second, *device);
      if (!there || !back) return std::nullopt;
      if (!*there || !*back) apart.push_back({gpu.index, other.index});
    }
  }
  return apart;
}

}  // namespace

std::optional<std::string> KernelVersionIn(const std::string& text) {
  // "NVRM version: NVIDIA UNIX … Kernel Module  580.159.04  Release Build …": the first word of digits and
  // points.
  const auto line = text.substr(0, text.find('\n'));
  for (std::size_t at = 0; at < line.size();) {
    const auto end = std::min(line.find(' ', at), line.size());
    const auto word = line.substr(at, end - at);
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
    at = end + 1;
  }
  return std::nullopt;
}

void GatherDriver(Facts& facts, const std::filesystem::path& root) {
  if (const auto text = base::ReadFile(root / "proc/driver/nvidia/version"))
    facts.driver.kernel = KernelVersionIn(*text);
  const auto cuda = driver::CudaDriver::Load();
  const auto version = cuda ? cuda->Version() : base::Result<int>(base::Fail(cuda.error()));
  if (version)
    facts.driver.libcuda = *version;
  else
    facts.driver.libcuda_problem = version.error().message;
  const auto nvml = driver::Nvml::Load();
  if (!nvml) {
    facts.driver.problem = nvml.error().message;
    return;
  }
  if (const auto text = (*nvml)->DriverVersion()) facts.driver.nvml = *text;
  if (const auto number = (*nvml)->CudaVersion()) facts.driver.nvml_cuda = *number;
  const auto count = (*nvml)->DeviceCount();
  for (unsigned index = 0; count && index < *count; ++index) facts.gpus.push_back(GpuAt(**nvml, index));
  facts.apart = ApartOf(**nvml, facts.gpus);
}

}  // namespace gpuman::doctor
