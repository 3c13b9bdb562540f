#include "mig/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/process.h"

namespace gpuman::mig {
namespace {

namespace abi = driver::abi;
using base::ErrorCode;

// Far above the number of profiles in any header; the driver ends the list with NVML_ERROR_INVALID_ARGUMENT.
constexpr unsigned kMaxProfiles = 64;
constexpr std::string_view kPrefix = "MIG ";

std::string SpecialOf(unsigned index) {
  const bool has_media = index == abi::NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 ||
                         index == abi::NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1;
  return has_media ? "+me" : "";
}

template <typename Info>
MigProfile ProfileOf(const Info& info) {
  MigProfile profile;
  profile.id = info.id;
  profile.slices = info.sliceCount;
  profile.most = info.instanceCount;
  profile.multiprocessors = info.multiprocessorCount;
  profile.memory = base::MiB(info.memorySizeMB);
  profile.engines = {info.decoderCount, info.encoderCount, info.jpegCount, info.ofaCount};
  return profile;
}

// Returns NVML_ERROR_INVALID_ARGUMENT at the end of the list; NVML_ERROR_NOT_SUPPORTED: this device does not
// have the profile.
abi::nvmlReturn_t ReadProfile(const driver::Nvml& nvml, driver::NvmlDevice device, unsigned index,
                              base::Bytes whole, MigProfile& profile) {
  const auto& calls = nvml.calls();
  if (calls.nvmlDeviceGetGpuInstanceProfileInfoV != nullptr) {
    abi::nvmlGpuInstanceProfileInfo_v2_t info{};
    info.version = abi::nvmlGpuInstanceProfileInfo_v2;
    const auto status = calls.nvmlDeviceGetGpuInstanceProfileInfoV(device, index, &info);
    if (status != abi::NVML_SUCCESS) return status;
    info.name[sizeof info.name - 1] = '\0';
    profile = ProfileOf(info);
    const std::string_view name = info.name;
    profile.name = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
    return status;
  }
  abi::nvmlGpuInstanceProfileInfo_t info{};
  if (calls.nvmlDeviceGetGpuInstanceProfileInfo == nullptr) return abi::NVML_ERROR_FUNCTION_NOT_FOUND;
  const auto status = calls.nvmlDeviceGetGpuInstanceProfileInfo(device, index, &info);
  if (status != abi::NVML_SUCCESS) return status;
  profile = ProfileOf(info);
  profile.name = NameOf(profile.slices, profile.memory, whole, SpecialOf(index));
  return status;
}

base::Result<std::vector<MigPlacement>> ReadPlacements(const driver::Nvml& nvml, driver::NvmlDevice device,
                                                       unsigned id) {
  unsigned count = 0;
  abi::nvmlGpuInstancePlacement_t* const none = nullptr;
  GPUMAN_TRY(GPUMAN_MIG_CALL(nvml, nvmlDeviceGetGpuInstancePossiblePlacements_v2, device, id, none, &count));
  std::vector<abi::nvmlGpuInstancePlacement_t> raw(count);
  GPUMAN_TRY(
      GPUMAN_MIG_CALL(nvml, nvmlDeviceGetGpuInstancePossiblePlacements_v2, device, id, raw.data(), &count));
  raw.resize(std::min<std::size_t>(count, raw.size()));
  std::vector<MigPlacement> placements;
  placements.reserve(raw.size());
  for (const auto& each : raw) placements.push_back({each.start, each.size});
  std::sort(placements.begin(), placements.end());
  return placements;
}

base::Result<Geometry> ReadGeometry(const driver::Nvml& nvml, driver::NvmlDevice device) {
  Geometry geometry;
  GPUMAN_ASSIGN(const auto memory, nvml.Memory(device));
  for (unsigned index = 0; index < kMaxProfiles; ++index) {
    MigProfile profile;
    const auto status = ReadProfile(nvml, device, index, memory.total, profile);
    if (status == abi::NVML_ERROR_NOT_SUPPORTED) continue;
    if (status == abi::NVML_ERROR_INVALID_ARGUMENT) break;
    if (status != abi::NVML_SUCCESS)
      return base::Fail(driver::Nvml::Describe("nvmlDeviceGetGpuInstanceProfileInfo", status));
    GPUMAN_ASSIGN(profile.placements, ReadPlacements(nvml, device, profile.id));
    geometry.push_back(std::move(profile));
  }
  std::stable_sort(geometry.begin(), geometry.end(), [](const MigProfile& a, const MigProfile& b) {
    return std::pair(a.slices, a.memory) < std::pair(b.slices, b.memory);
  });
  return geometry;
}

base::Result<std::vector<abi::nvmlGpuInstance_t>> InstancesOf(const driver::Nvml& nvml,
                                                              driver::NvmlDevice device,
                                                              const MigProfile& profile) {
  std::vector<abi::nvmlGpuInstance_t> handles(std::max(profile.most, 1u));
  auto count = static_cast<unsigned>(handles.size());
  GPUMAN_TRY(GPUMAN_MIG_CALL(nvml, nvmlDeviceGetGpuInstances, device, profile.id, handles.data(), &count));
  handles.resize(std::min<std::size_t>(count, handles.size()));
  return handles;
}

base::Result<std::vector<ComputeInstance>> ReadComputes(const driver::Nvml& nvml,
                                                        abi::nvmlGpuInstance_t instance) {
  std::vector<ComputeInstance> computes;
  GPUMAN_ASSIGN(const auto profiles, ComputeProfilesOf(nvml, instance));
  for (const auto& profile : profiles) {
    GPUMAN_ASSIGN(const auto handles, ComputesOf(nvml, instance, profile));
    for (auto* const handle : handles) {
      abi::nvmlComputeInstanceInfo_t info{};
      GPUMAN_TRY(GPUMAN_MIG_CALL(nvml, nvmlComputeInstanceGetInfo_v2, handle, &info));
      computes.push_back({info.id, profile.slices, ""});
    }
  }
  std::sort(computes.begin(), computes.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return computes;
}

// The UUIDs by the ids of GPU instance and compute instance. If they cannot be read, the other values are
// still useful.
std::map<std::pair<unsigned, unsigned>, std::string> ReadUuids(const driver::Nvml& nvml,
                                                               driver::NvmlDevice device) {
  std::map<std::pair<unsigned, unsigned>, std::string> uuids;
  unsigned count = 0;
  if (!GPUMAN_MIG_CALL(nvml, nvmlDeviceGetMaxMigDeviceCount, device, &count)) return uuids;
  for (unsigned index = 0; index < count; ++index) {
    driver::NvmlDevice mig = nullptr;
    unsigned instance = 0, compute = 0;
    std::array<char, abi::NVML_DEVICE_UUID_V2_BUFFER_SIZE> uuid{};
    if (GPUMAN_MIG_CALL(nvml, nvmlDeviceGetMigDeviceHandleByIndex, device, index, &mig) &&
        GPUMAN_MIG_CALL(nvml, nvmlDeviceGetGpuInstanceId, mig, &instance) &&
        GPUMAN_MIG_CALL(nvml, nvmlDeviceGetComputeInstanceId, mig, &compute) &&
        GPUMAN_MIG_CALL(nvml, nvmlDeviceGetUUID, mig, uuid.data(), static_cast<unsigned>(uuid.size())))
      uuids[{instance, compute}] = uuid.data();
  }
  return uuids;
}

base::Result<std::vector<GpuInstance>> ReadInstances(const driver::Nvml& nvml, driver::NvmlDevice device,
                                                     const Geometry& geometry) {
  std::vector<GpuInstance> instances;
  const auto uuids = ReadUuids(nvml, device);
  for (std::size_t profile = 0; profile < geometry.size(); ++profile) {
    GPUMAN_ASSIGN(const auto handles, InstancesOf(nvml, device, geometry[profile]));
    for (auto* const handle : handles) {
      abi::nvmlGpuInstanceInfo_t info{};
      GPUMAN_TRY(GPUMAN_MIG_CALL(nvml, nvmlGpuInstanceGetInfo, handle, &info));
      GpuInstance instance{info.id, profile, {info.placement.start, info.placement.size}, {}};
      GPUMAN_ASSIGN(instance.compute, ReadComputes(nvml, handle));
      for (auto& compute : instance.compute)
        if (const auto uuid = uuids.find({instance.id, compute.id}); uuid != uuids.end())
          compute.uuid = uuid->second;
      instances.push_back(std::move(instance));
    }
  }
  std::sort(instances.begin(), instances.end(),
            [](const auto& a, const auto& b) { return a.placement.start < b.placement.start; });
  return instances;
}

base::Result<std::vector<MigProcess>> ReadProcesses(const driver::Nvml& nvml, driver::NvmlDevice device) {
  GPUMAN_ASSIGN(auto seen, nvml.ComputeProcesses(device));
  if (auto graphics = nvml.GraphicsProcesses(device))
    seen.insert(seen.end(), graphics->begin(), graphics->end());
  const base::ProcFs table;
  std::vector<MigProcess> processes;
  for (const auto& each : seen) {
    const auto info = table.Find(each.pid);
    processes.push_back({each.pid, info ? info->name : "", each.gpu_instance, each.compute_instance});
  }
  std::sort(processes.begin(), processes.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  return processes;
}

}  // namespace

std::string NameOf(unsigned slices, base::Bytes memory, base::Bytes whole, const std::string& special) {
  constexpr double kEighths = 8;
  const double share =
      static_cast<double>(memory.count) / static_cast<double>(std::max<std::uint64_t>(whole.count, 1));
  const double all = std::ceil(static_cast<double>(whole.count) / static_cast<double>(base::GiB(1).count));
  return fmt::format("{}g.{}gb{}", slices, std::lround(std::ceil(share * kEighths) / kEighths * all),
                     special);
}

base::Result<std::vector<ComputeProfile>> ComputeProfilesOf(const driver::Nvml& nvml,
                                                            abi::nvmlGpuInstance_t instance) {
  const auto function = nvml.calls().nvmlGpuInstanceGetComputeInstanceProfileInfo;
  constexpr const char* kCall = "nvmlGpuInstanceGetComputeInstanceProfileInfo";
  std::vector<ComputeProfile> profiles;
  for (unsigned index = 0; index < kMaxProfiles; ++index) {
    abi::nvmlComputeInstanceProfileInfo_t info{};
    const auto status =
        function == nullptr
            ? abi::NVML_ERROR_FUNCTION_NOT_FOUND
            : function(instance, index, abi::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info);
    if (status == abi::NVML_ERROR_NOT_SUPPORTED) continue;
    if (status == abi::NVML_ERROR_INVALID_ARGUMENT && index > 0) break;
    if (status != abi::NVML_SUCCESS) return base::Fail(driver::Nvml::Describe(kCall, status));
    profiles.push_back({info.id, info.sliceCount, info.instanceCount, info.multiprocessorCount});
  }
  return profiles;
}

base::Result<std::vector<abi::nvmlComputeInstance_t>> ComputesOf(const driver::Nvml& nvml,
                                                                 abi::nvmlGpuInstance_t instance,
                                                                 const ComputeProfile& profile) {
  std::vector<abi::nvmlComputeInstance_t> handles(std::max(profile.most, 1u));
  auto count = static_cast<unsigned>(handles.size());
  GPUMAN_TRY(GPUMAN_MIG_CALL(nvml, nvmlGpuInstanceGetComputeInstances, instance, profile.id, handles.data(),
                             &count));
  handles.resize(std::min<std::size_t>(count, handles.size()));
  return handles;
}

base::Result<abi::nvmlGpuInstance_t> FindInstance(const driver::Nvml& nvml, driver::NvmlDevice device,
                                                  const MigProfile& profile, const MigPlacement& placement) {
  GPUMAN_ASSIGN(const auto handles, InstancesOf(nvml, device, profile));
  for (auto* const handle : handles) {
    abi::nvmlGpuInstanceInfo_t info{};
    GPUMAN_TRY(GPUMAN_MIG_CALL(nvml, nvmlGpuInstanceGetInfo, handle, &info));
    if (MigPlacement{info.placement.start, info.placement.size} == placement) return handle;
  }
  return base::Fail(ErrorCode::kNotFound,
                    fmt::format("there is no {} at slice {} any more", profile.name, placement.start));
}

base::Result<GpuMigState> ReadDevice(const driver::Nvml& nvml, const std::string& uuid) {
  GPUMAN_ASSIGN(const driver::NvmlDevice handle, nvml.DeviceByUuid(uuid));
  const auto mode = nvml.MigMode(handle);
  if (!mode && mode.error().code == ErrorCode::kNotSupported)
    return base::Fail(ErrorCode::kNotSupported, "this GPU cannot be split into MIG instances",
                      "those of data centres can, from the A100 and A30 on");
  if (!mode) return base::Fail(mode.error());
  GpuMigState device;
  device.enabled = mode->enabled;
  device.pending = mode->pending;
  GPUMAN_ASSIGN(device.geometry, ReadGeometry(nvml, handle));
  if (device.enabled) {
    GPUMAN_ASSIGN(device.instances, ReadInstances(nvml, handle, device.geometry));
  }
  GPUMAN_ASSIGN(device.processes, ReadProcesses(nvml, handle));
  return device;
}

}  // namespace gpuman::mig
