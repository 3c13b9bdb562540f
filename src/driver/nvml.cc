#include "driver/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/parse_number.h"

namespace gpuman::driver {
namespace {

using base::Bytes;
using base::ErrorCode;

constexpr const char* kInstallHint =
    "install the NVIDIA driver, or run under `gpuman-sim exec -- …` to use the simulated one";

std::string_view TextOf(abi::nvmlReturn_t status) {
  switch (status) {
#define GPUMAN_NVML_TEXT(name, value, text) \
  case abi::name:                           \
    return text;
    GPUMAN_NVML_RETURNS(GPUMAN_NVML_TEXT)
#undef GPUMAN_NVML_TEXT
  }
  return "an error that this version does not know";
}

struct ErrorMeaning {
  NvmlFailure failure;
  ErrorCode code;
  const char* hint;
};

ErrorMeaning MeaningOf(abi::nvmlReturn_t status) {
  switch (status) {
    case abi::NVML_ERROR_DRIVER_NOT_LOADED:
    case abi::NVML_ERROR_LIBRARY_NOT_FOUND:
      return {NvmlFailure::kNoDriver, ErrorCode::kUnavailable, kInstallHint};
    case abi::NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return {NvmlFailure::kNoDriver, ErrorCode::kUnavailable,
              "the driver was updated while it ran: reboot, or reload the kernel module"};
    case abi::NVML_ERROR_UNINITIALIZED:
      return {NvmlFailure::kNoDriver, ErrorCode::kUnavailable, ""};
    case abi::NVML_ERROR_FUNCTION_NOT_FOUND:
    case abi::NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
      return {NvmlFailure::kNoFunction, ErrorCode::kNotSupported, "a newer driver may have it"};
    case abi::NVML_ERROR_NOT_SUPPORTED:
    case abi::NVML_ERROR_DEPRECATED:
      return {NvmlFailure::kNotSupported, ErrorCode::kNotSupported, ""};
    case abi::NVML_ERROR_NO_PERMISSION:
      return {NvmlFailure::kNoPermission, ErrorCode::kPermissionDenied, "needs root"};
    case abi::NVML_ERROR_OPERATING_SYSTEM:
      return {NvmlFailure::kNoPermission, ErrorCode::kPermissionDenied,
              "the device files under /dev must be accessible, also by the cgroup's device rules"};
    case abi::NVML_ERROR_NOT_FOUND:
    case abi::NVML_ERROR_GPU_NOT_FOUND:
      return {NvmlFailure::kNotFound, ErrorCode::kNotFound, ""};
    case abi::NVML_ERROR_GPU_IS_LOST:
      return {NvmlFailure::kGpuLost, ErrorCode::kUnavailable, "reset the GPU or reboot the machine"};
    case abi::NVML_ERROR_RESET_REQUIRED:
      return {NvmlFailure::kGpuLost, ErrorCode::kUnavailable, "reset it: nvidia-smi --gpu-reset"};
    case abi::NVML_ERROR_INVALID_ARGUMENT:
    case abi::NVML_ERROR_FREQ_NOT_SUPPORTED:
      return {NvmlFailure::kInvalid, ErrorCode::kInvalidArgument, ""};
    case abi::NVML_ERROR_TIMEOUT:
      return {NvmlFailure::kTimeout, ErrorCode::kTimeout, ""};
    case abi::NVML_ERROR_IN_USE:
    case abi::NVML_ERROR_INVALID_STATE:
    case abi::NVML_ERROR_NOT_READY:
      return {NvmlFailure::kOther, ErrorCode::kConflict, ""};
    case abi::NVML_ERROR_MEMORY:
    case abi::NVML_ERROR_INSUFFICIENT_RESOURCES:
      return {NvmlFailure::kOther, ErrorCode::kExhausted, ""};
    default:
      return {NvmlFailure::kOther, ErrorCode::kInternal, ""};
  }
}

tl::unexpected<NvmlError> Failed(std::string_view call, abi::nvmlReturn_t status) {
  return tl::unexpected(Nvml::Describe(call, status));
}

tl::unexpected<NvmlError> NoDriver(std::string message) {
  NvmlError error;
  error.code = ErrorCode::kUnavailable;
  error.message = std::move(message);
  error.hint = kInstallHint;
  error.failure = NvmlFailure::kNoDriver;
  error.status = abi::NVML_ERROR_LIBRARY_NOT_FOUND;
  return tl::unexpected(std::move(error));
}

std::optional<unsigned> Instance(unsigned id) {
  return id == abi::kNoInstance ? std::nullopt : std::optional(id);
}

std::optional<Bytes> ProcessMemory(unsigned long long bytes) {
  return bytes == abi::NVML_VALUE_NOT_AVAILABLE ? std::nullopt : std::optional(Bytes{bytes});
}

// For calls about a cgroup, this status says that the cgroup could not be opened.
NvmlError OfCgroup(NvmlError error) {
  if (error.status != abi::NVML_ERROR_OPERATING_SYSTEM) return error;
  error.failure = NvmlFailure::kNotFound;
  error.code = ErrorCode::kNotFound;
  error.hint = "the cgroup must be a directory of cgroup v2";
  return error;
}

// In the first releases of branch 535 the functions _v3 use a longer entry under the same name.
bool HasLongProcessEntries(std::string_view driver_version) {
  constexpr std::string_view kBranch = "535.";
  if (!driver_version.starts_with(kBranch)) return false;
  std::string_view minor = driver_version.substr(kBranch.size());
  return base::TakeNumber<int>(minor).value_or(0) < 104;
}

// Asks again with a larger buffer until all entries fit.
template <typename Entry, typename Function>
NvmlResult<std::vector<Entry>> Fill(std::string_view call, const Function& function, NvmlDevice device) {
  std::vector<Entry> entries(32);
  for (int attempt = 0; attempt < 8; ++attempt) {
    auto count = static_cast<unsigned>(entries.size());
    const abi::nvmlReturn_t status = function(device, &count, entries.data());
    if (status == abi::NVML_SUCCESS) {
      entries.resize(std::min<std::size_t>(count, entries.size()));
      return entries;
    }
    if (status != abi::NVML_ERROR_INSUFFICIENT_SIZE) return Failed(call, status);
    entries.resize(std::max<std::size_t>(count, entries.size()) * 2);  // more entries may have come meanwhile
  }
  return Failed(call, abi::NVML_ERROR_INSUFFICIENT_SIZE);
}

}  // namespace

NvmlError Nvml::Describe(std::string_view call, abi::nvmlReturn_t status) {
  const ErrorMeaning kind = MeaningOf(status);
  NvmlError error;
  error.code = kind.code;
  error.message = fmt::format("{}: {}", call, TextOf(status));
  if (TextOf(status).starts_with("an error")) error.message += fmt::format(" ({})", static_cast<int>(status));
  error.hint = kind.hint;
  error.failure = kind.failure;
  error.status = status;
  return error;
}

template <typename... Parameters, typename... Arguments>
NvmlResult<> Nvml::Invoke(std::string_view call, abi::nvmlReturn_t (*function)(Parameters...),
                          Arguments... arguments) const {
  if (function == nullptr) return Failed(call, abi::NVML_ERROR_FUNCTION_NOT_FOUND);
  const abi::nvmlReturn_t status = function(arguments...);
  if (status != abi::NVML_SUCCESS) return Failed(call, status);
  return {};
}

// `getter` fills a buffer; it gets the buffer's size.
template <typename Getter>
NvmlResult<std::string> Nvml::Text(std::string_view call, Getter getter) const {
  std::array<char, 96> buffer{};
  if (auto called = getter(call, buffer.data(), static_cast<unsigned>(buffer.size())); !called) {
    return tl::unexpected(std::move(called).error());
  }
  buffer.back() = '\0';
  return std::string(buffer.data());
}

NvmlResult<std::unique_ptr<Nvml>> Nvml::Load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return NoDriver(fmt::format("no NVIDIA driver: {}", why != nullptr ? why : library));
  }
  std::unique_ptr<Nvml> nvml(new Nvml);
  nvml->Resolve(handle);
  if (nvml->calls_.nvmlInit_v2 == nullptr) {
    return NoDriver(fmt::format("{} is no NVML: it has no nvmlInit_v2", library));
  }
  if (const auto status = nvml->calls_.nvmlInit_v2(); status != abi::NVML_SUCCESS) {
    nvml->calls_.nvmlShutdown = nullptr;  // nothing to shut down
    return Failed("nvmlInit_v2", status);
  }
  const bool long_entries = HasLongProcessEntries(nvml->DriverVersion().value_or(""));
  const NvmlCalls& calls = nvml->calls_;
  const auto pick = [&](auto* v3, auto* v2) { return v3 != nullptr && !long_entries ? v3 : v2; };
  nvml->compute_processes_ =
      pick(calls.nvmlDeviceGetComputeRunningProcesses_v3, calls.nvmlDeviceGetComputeRunningProcesses_v2);
  nvml->graphics_processes_ =
      pick(calls.nvmlDeviceGetGraphicsRunningProcesses_v3, calls.nvmlDeviceGetGraphicsRunningProcesses_v2);
  return nvml;
}

Nvml::~Nvml() {
  if (calls_.nvmlShutdown != nullptr) calls_.nvmlShutdown();
}

void Nvml::Resolve(void* library) {
#define GPUMAN_NVML_RESOLVE(since, name, parameters) \
  calls_.name = reinterpret_cast<abi::fn::name*>(dlsym(library, #name));
  GPUMAN_NVML_FUNCTIONS(GPUMAN_NVML_RESOLVE)
#undef GPUMAN_NVML_RESOLVE
  calls_.nvmlErrorString = reinterpret_cast<abi::nvmlErrorString_fn*>(dlsym(library, "nvmlErrorString"));
}

NvmlResult<std::string> Nvml::DriverVersion() const {
  return Text("nvmlSystemGetDriverVersion", [&](std::string_view call, char* text, unsigned size) {
    return Invoke(call, calls_.nvmlSystemGetDriverVersion, text, size);
  });
}

NvmlResult<int> Nvml::CudaVersion() const {
  int version = 0;
  auto called =
      Invoke("nvmlSystemGetCudaDriverVersion_v2", calls_.nvmlSystemGetCudaDriverVersion_v2, &version);
  return std::move(called).map([&] { return version; });
}

NvmlResult<unsigned> Nvml::DeviceCount() const {
  unsigned count = 0;
  auto called = Invoke("nvmlDeviceGetCount_v2", calls_.nvmlDeviceGetCount_v2, &count);
  return std::move(called).map([&] { return count; });
}

NvmlResult<NvmlDevice> Nvml::DeviceAt(unsigned index) const {
  NvmlDevice device = nullptr;
  auto called = Invoke("nvmlDeviceGetHandleByIndex_v2", calls_.nvmlDeviceGetHandleByIndex_v2, index, &device);
  return std::move(called).map([&] { return device; });
}

NvmlResult<NvmlDevice> Nvml::DeviceByUuid(const std::string& uuid) const {
  NvmlDevice device = nullptr;
  auto called = Invoke("nvmlDeviceGetHandleByUUID", calls_.nvmlDeviceGetHandleByUUID, uuid.c_str(), &device);
  return std::move(called).map([&] { return device; });
}

NvmlResult<std::string> Nvml::Uuid(NvmlDevice device) const {
  return Text("nvmlDeviceGetUUID", [&](std::string_view call, char* text, unsigned size) {
    return Invoke(call, calls_.nvmlDeviceGetUUID, device, text, size);
  });
}

NvmlResult<std::string> Nvml::Name(NvmlDevice device) const {
  return Text("nvmlDeviceGetName", [&](std::string_view call, char* text, unsigned size) {
    return Invoke(call, calls_.nvmlDeviceGetName, device, text, size);
  });
}

NvmlResult<NvmlDeviceInfo> Nvml::Info(NvmlDevice device) const {
  NvmlDeviceInfo info;
  GPUMAN_TRY(Invoke("nvmlDeviceGetIndex", calls_.nvmlDeviceGetIndex, device, &info.index));
  GPUMAN_ASSIGN(info.uuid, Uuid(device));
  GPUMAN_ASSIGN(info.name, Name(device));
  abi::nvmlPciInfo_t pci{};
  GPUMAN_TRY(Invoke("nvmlDeviceGetPciInfo_v3", calls_.nvmlDeviceGetPciInfo_v3, device, &pci));
  pci.busId[sizeof pci.busId - 1] = '\0';
  info.pci_bus_id = pci.busId;
  unsigned minor = 0;
  if (Invoke("nvmlDeviceGetMinorNumber", calls_.nvmlDeviceGetMinorNumber, device, &minor)) info.minor = minor;
  GPUMAN_ASSIGN(const NvmlMemory memory, Memory(device));
  info.memory = memory.total;
  return info;
}

NvmlResult<NvmlMemory> Nvml::Memory(NvmlDevice device) const {
  if (calls_.nvmlDeviceGetMemoryInfo_v2 != nullptr) {
    abi::nvmlMemory_v2_t memory{};
    memory.version = abi::nvmlMemory_v2;
    GPUMAN_TRY(Invoke("nvmlDeviceGetMemoryInfo_v2", calls_.nvmlDeviceGetMemoryInfo_v2, device, &memory));
    return NvmlMemory{Bytes{memory.total}, Bytes{memory.reserved}, Bytes{memory.used}, Bytes{memory.free}};
  }
  abi::nvmlMemory_t memory{};
  GPUMAN_TRY(Invoke("nvmlDeviceGetMemoryInfo", calls_.nvmlDeviceGetMemoryInfo, device, &memory));
  return NvmlMemory{Bytes{memory.total}, Bytes{0}, Bytes{memory.used}, Bytes{memory.free}};
}

NvmlResult<NvmlMemoryLimits> Nvml::MemoryLimits(NvmlDevice device, const std::string& cgroup) const {
  abi::nvmlGetMemoryLimits_v1_t limits{};
  limits.nameSpace = cgroup.c_str();
  auto called = Invoke("nvmlDeviceGetMemoryLimits_v1", calls_.nvmlDeviceGetMemoryLimits_v1, device, &limits);
  if (!called && called.error().failure == NvmlFailure::kNotFound) return NvmlMemoryLimits{};
  if (!called) return tl::unexpected(OfCgroup(std::move(called).error()));
  NvmlMemoryLimits answer{Bytes{limits.softLimit}};
  if (limits.hardLimit != abi::NVML_DEVICE_MEMORY_LIMIT_MAX) answer.hard = Bytes{limits.hardLimit};
  return answer;
}

NvmlResult<> Nvml::SetMemoryLimits(NvmlDevice device, const std::string& cgroup,
                                   const NvmlMemoryLimits& limits) const {
  abi::nvmlSetMemoryLimits_v1_t wanted{cgroup.c_str(), limits.soft.count,
                                       limits.hard ? limits.hard->count : abi::NVML_DEVICE_MEMORY_LIMIT_MAX};
  return Invoke("nvmlDeviceSetMemoryLimits_v1", calls_.nvmlDeviceSetMemoryLimits_v1, device, &wanted)
      .map_error(OfCgroup);
}

NvmlResult<std::vector<NvmlProcess>> Nvml::ComputeProcesses(NvmlDevice device) const {
  return Processes("nvmlDeviceGetComputeRunningProcesses", compute_processes_,
                   calls_.nvmlDeviceGetComputeRunningProcesses, device);
}

NvmlResult<std::vector<NvmlProcess>> Nvml::GraphicsProcesses(NvmlDevice device) const {
  return Processes("nvmlDeviceGetGraphicsRunningProcesses", graphics_processes_,
                   calls_.nvmlDeviceGetGraphicsRunningProcesses, device);
}

NvmlResult<std::vector<NvmlProcess>> Nvml::Processes(std::string_view call, ProcessesCall* function,
                                                     abi::fn::nvmlDeviceGetComputeRunningProcesses* oldest,
                                                     NvmlDevice device) const {
  std::vector<NvmlProcess> processes;
  if (function != nullptr) {
    GPUMAN_ASSIGN(const auto entries, Fill<abi::nvmlProcessInfo_v2_t>(call, function, device));
    processes.reserve(entries.size());
    for (const abi::nvmlProcessInfo_v2_t& entry : entries) {
      processes.push_back({static_cast<int>(entry.pid), ProcessMemory(entry.usedGpuMemory),
                           Instance(entry.gpuInstanceId), Instance(entry.computeInstanceId)});
    }
  } else if (oldest != nullptr) {
    GPUMAN_ASSIGN(const auto entries, Fill<abi::nvmlProcessInfo_v1_t>(call, oldest, device));
    for (const abi::nvmlProcessInfo_v1_t& entry : entries) {
      processes.push_back({static_cast<int>(entry.pid), ProcessMemory(entry.usedGpuMemory), {}, {}});
    }
  } else {
    return Failed(call, abi::NVML_ERROR_FUNCTION_NOT_FOUND);
  }
  return processes;
}

NvmlResult<NvmlUtilization> Nvml::Utilization(NvmlDevice device) const {
  abi::nvmlUtilization_t rates{};
  auto called = Invoke("nvmlDeviceGetUtilizationRates", calls_.nvmlDeviceGetUtilizationRates, device, &rates);
  return std::move(called).map([&] { return NvmlUtilization{rates.gpu, rates.memory}; });
}

NvmlResult<int> Nvml::Temperature(NvmlDevice device) const {
  unsigned celsius = 0;
  auto called = Invoke("nvmlDeviceGetTemperature", calls_.nvmlDeviceGetTemperature, device,
                       abi::NVML_TEMPERATURE_GPU, &celsius);
  return std::move(called).map([&] { return static_cast<int>(celsius); });
}

NvmlResult<unsigned> Nvml::PowerMilliwatts(NvmlDevice device) const {
  unsigned milliwatts = 0;
  auto called = Invoke("nvmlDeviceGetPowerUsage", calls_.nvmlDeviceGetPowerUsage, device, &milliwatts);
  return std::move(called).map([&] { return milliwatts; });
}

NvmlResult<std::uint64_t> Nvml::EnergyMillijoules(NvmlDevice device) const {
  unsigned long long millijoules = 0;
  auto called = Invoke("nvmlDeviceGetTotalEnergyConsumption", calls_.nvmlDeviceGetTotalEnergyConsumption,
                       device, &millijoules);
  return std::move(called).map([&] { return static_cast<std::uint64_t>(millijoules); });
}

NvmlResult<std::vector<NvmlBusyProcess>> Nvml::BusyProcesses(NvmlDevice device,
                                                             std::uint64_t since_us) const {
  constexpr const char* kCall = "nvmlDeviceGetProcessUtilization";
  auto* const function = calls_.nvmlDeviceGetProcessUtilization;
  if (function == nullptr) return Failed(kCall, abi::NVML_ERROR_FUNCTION_NOT_FOUND);
  const auto ask = [&](NvmlDevice of, unsigned* count, abi::nvmlProcessUtilizationSample_t* samples) {
    return function(of, samples, count, since_us);
  };
  auto samples = Fill<abi::nvmlProcessUtilizationSample_t>(kCall, ask, device);
  std::vector<NvmlBusyProcess> busy;
  // The driver returns this status when no process was busy.
  if (!samples && samples.error().status == abi::NVML_ERROR_NOT_FOUND) return busy;
  if (!samples) return tl::unexpected(std::move(samples.error()));
  for (const auto& sample : *samples)
    if (sample.pid != 0 && (sample.smUtil | sample.memUtil | sample.encUtil | sample.decUtil) != 0)
      busy.push_back({static_cast<int>(sample.pid), sample.timeStamp, sample.smUtil});
  return busy;
}

NvmlResult<abi::nvmlGpuTopologyLevel_t> Nvml::CommonAncestor(NvmlDevice a, NvmlDevice b) const {
  auto level = abi::NVML_TOPOLOGY_SYSTEM;
  auto called =
      Invoke("nvmlDeviceGetTopologyCommonAncestor", calls_.nvmlDeviceGetTopologyCommonAncestor, a, b, &level);
  return std::move(called).map([&] { return level; });
}

// The status of a pair of peers covers links through switches. If a driver does not give that status, we ask
// for the other end of each link.
NvmlResult<bool> Nvml::HaveNvLink(NvmlDevice a, NvmlDevice b) const {
  constexpr unsigned kMaxLinks = 18;
  auto status = abi::NVML_P2P_STATUS_UNKNOWN;
  if (Invoke("nvmlDeviceGetP2PStatus", calls_.nvmlDeviceGetP2PStatus, a, b, abi::NVML_P2P_CAPS_INDEX_NVLINK,
             &status))
    return status == abi::NVML_P2P_STATUS_OK;
  abi::nvmlPciInfo_t there{};
  GPUMAN_TRY(Invoke("nvmlDeviceGetPciInfo_v3", calls_.nvmlDeviceGetPciInfo_v3, b, &there));
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    auto state = abi::NVML_FEATURE_DISABLED;
    auto asked = Invoke("nvmlDeviceGetNvLinkState", calls_.nvmlDeviceGetNvLinkState, a, link, &state);
    if (!asked && link == 0) return tl::unexpected(std::move(asked.error()));
    if (!asked) break;
    if (state != abi::NVML_FEATURE_ENABLED) continue;
    abi::nvmlPciInfo_t remote{};
    GPUMAN_TRY(Invoke("nvmlDeviceGetNvLinkRemotePciInfo_v2", calls_.nvmlDeviceGetNvLinkRemotePciInfo_v2, a,
                      link, &remote));
    if (remote.domain == there.domain && remote.bus == there.bus && remote.device == there.device)
      return true;
  }
  return false;
}

NvmlResult<NvmlMigMode> Nvml::MigMode(NvmlDevice device) const {
  unsigned current = 0, pending = 0;
  auto called = Invoke("nvmlDeviceGetMigMode", calls_.nvmlDeviceGetMigMode, device, &current, &pending);
  return std::move(called).map([&] {
    return NvmlMigMode{current == abi::NVML_DEVICE_MIG_ENABLE, pending == abi::NVML_DEVICE_MIG_ENABLE};
  });
}

NvmlResult<unsigned> Nvml::MostInstances(NvmlDevice device) const {
  unsigned count = 0;
  auto called =
      Invoke("nvmlDeviceGetMaxMigDeviceCount", calls_.nvmlDeviceGetMaxMigDeviceCount, device, &count);
  return std::move(called).map([&] { return count; });
}

NvmlResult<NvmlDevice> Nvml::InstanceAt(NvmlDevice device, unsigned number) const {
  NvmlDevice instance = nullptr;
  auto called = Invoke("nvmlDeviceGetMigDeviceHandleByIndex", calls_.nvmlDeviceGetMigDeviceHandleByIndex,
                       device, number, &instance);
  return std::move(called).map([&] { return instance; });
}

NvmlResult<NvmlInstanceInfo> Nvml::InstanceInfo(NvmlDevice instance) const {
  NvmlInstanceInfo info;
  GPUMAN_ASSIGN(info.uuid, Uuid(instance));
  GPUMAN_ASSIGN(info.name, Name(instance));
  GPUMAN_TRY(
      Invoke("nvmlDeviceGetGpuInstanceId", calls_.nvmlDeviceGetGpuInstanceId, instance, &info.gpu_instance));
  GPUMAN_TRY(Invoke("nvmlDeviceGetComputeInstanceId", calls_.nvmlDeviceGetComputeInstanceId, instance,
                    &info.compute_instance));
  GPUMAN_ASSIGN(const NvmlMemory memory, Memory(instance));
  info.memory = memory.total;
  return info;
}

NvmlResult<std::uint64_t> Nvml::SupportedEvents(NvmlDevice device) const {
  unsigned long long types = 0;
  auto called =
      Invoke("nvmlDeviceGetSupportedEventTypes", calls_.nvmlDeviceGetSupportedEventTypes, device, &types);
  return std::move(called).map([&] { return static_cast<std::uint64_t>(types); });
}

NvmlResult<NvmlEventSet> Nvml::CreateEventSet() const {
  abi::nvmlEventSet_t set = nullptr;
  auto called = Invoke("nvmlEventSetCreate", calls_.nvmlEventSetCreate, &set);
  return std::move(called).map([&] { return NvmlEventSet(calls_, set); });
}

NvmlEventSet::NvmlEventSet(NvmlEventSet&& other) noexcept
    : calls_(other.calls_), set_(std::exchange(other.set_, nullptr)) {}

NvmlEventSet& NvmlEventSet::operator=(NvmlEventSet&& other) noexcept {
  std::swap(calls_, other.calls_);
  std::swap(set_, other.set_);
  return *this;
}

NvmlEventSet::~NvmlEventSet() {
  if (set_ != nullptr && calls_->nvmlEventSetFree != nullptr) calls_->nvmlEventSetFree(set_);
}

NvmlResult<> NvmlEventSet::Add(NvmlDevice device, std::uint64_t types) {
  if (calls_->nvmlDeviceRegisterEvents == nullptr) {
    return Failed("nvmlDeviceRegisterEvents", abi::NVML_ERROR_FUNCTION_NOT_FOUND);
  }
  const auto status = calls_->nvmlDeviceRegisterEvents(device, types, set_);
  if (status != abi::NVML_SUCCESS) return Failed("nvmlDeviceRegisterEvents", status);
  return {};
}

NvmlResult<std::optional<NvmlEvent>> NvmlEventSet::Wait(base::Millis timeout) {
  auto* const wait =
      calls_->nvmlEventSetWait_v2 != nullptr ? calls_->nvmlEventSetWait_v2 : calls_->nvmlEventSetWait;
  if (wait == nullptr) return Failed("nvmlEventSetWait_v2", abi::NVML_ERROR_FUNCTION_NOT_FOUND);
  constexpr std::int64_t kLongest = std::numeric_limits<std::int32_t>::max();
  const auto wait_ms = static_cast<unsigned>(std::clamp<std::int64_t>(timeout.count(), 0, kLongest));
  abi::nvmlEventData_t data{};
  const auto status = wait(set_, &data, wait_ms);
  if (status == abi::NVML_ERROR_TIMEOUT) return std::nullopt;
  if (status != abi::NVML_SUCCESS) return Failed("nvmlEventSetWait_v2", status);
  return NvmlEvent{data.device, data.eventType, data.eventData};
}

}  // namespace gpuman::driver
