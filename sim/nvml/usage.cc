// The use of a GPU: memory, processes, utilization.
#include <algorithm>
#include <vector>

#include "sim/nvml/call.h"
#include "sim/nvml/exports.h"
#include "sim/nvml/readings.h"

namespace gpuman::driver::abi {

using namespace sim;  // NOLINT(google-build-using-namespace)

namespace {

enum class ClientKind { kCompute, kGraphics };

struct User {
  unsigned pid;
  std::uint64_t bytes;
  const ProcessSlot* slot;
  unsigned instance = kNoInstance, compute = kNoInstance;  // of MIG
};

// Adds the processes with a context on one of the state's devices that the caller's pid namespace contains,
// as NVIDIA's kernel module does; a checkpointed process is not on the device.
void AddUsers(const Gpu& gpu, unsigned device, ClientKind kind, const std::vector<ProcessSlot*>& slots,
              const MigInstance* instance, std::vector<User>& users) {
  for (const ProcessSlot* slot : slots) {
    const ProcessGpu& entry = slot->gpu[device];
    const bool there =
        kind == ClientKind::kGraphics ? entry.graphics.load() != 0 : entry.contexts.load() != 0;
    const bool away =
        slot->checkpoint.state.load() == static_cast<std::uint32_t>(CheckpointState::kCheckpointed);
    const std::uint32_t pid = gpu.client.PidOf(*slot);
    if (!there || away || pid == 0) continue;
    User user{pid, HeldBy(gpu.shared, *slot, device), slot};
    if (instance != nullptr) {
      user.instance = instance->id;
      user.compute = static_cast<unsigned>(entry.compute_instance.load());
      if (gpu.mig && gpu.mig->compute.id != user.compute) continue;
    }
    users.push_back(user);
  }
}

// For a GPU that is split, the users of its instances.
std::vector<User> UsersOf(const Gpu& gpu, ClientKind kind) {
  std::vector<User> users;
  const auto slots = gpu.client.LiveSlots();
  AddUsers(gpu, gpu.index, kind, slots, gpu.mig ? &gpu.mig->instance : nullptr, users);
  for (const MigInstance& instance : MigInstances(gpu.shared, gpu.index))
    AddUsers(gpu, instance.device(), kind, slots, &instance, users);
  return users;
}

void Fill(nvmlProcessInfo_v1_t& info, const User& user) { info = {user.pid, user.bytes}; }
void Fill(nvmlProcessInfo_v2_t& info, const User& user) {
  info = {user.pid, user.bytes, user.instance, user.compute};
}

template <typename Info>
nvmlReturn_t Processes(const char* function, nvmlDevice_t device, ClientKind kind, unsigned* count,
                       Info* infos) {
  return OnDeviceOrInstance(function, device, [&](const Gpu& gpu) {
    if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const std::vector<User> users = UsersOf(gpu, kind);
    const unsigned room = *count;
    if (room != 0 && infos == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *count = static_cast<unsigned>(users.size());
    if (users.size() > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (std::size_t i = 0; i < users.size(); ++i) Fill(infos[i], users[i]);
    return NVML_SUCCESS;
  });
}

std::uint64_t SweptUse(const Gpu& gpu) {
  gpu.client.SweepDead();
  return DeviceUsed(gpu.shared, gpu.index);
}

// "On MIG-enabled GPUs, querying utilization is not currently supported" (nvml.h), for devices, engines and
// processes.
template <typename Body>
nvmlReturn_t OnUnsplit(const char* function, nvmlDevice_t device, Body body) {
  return OnDevice(function, device, [&](const Gpu& gpu) {
    return gpu.now.mig_current.load() != 0 ? NVML_ERROR_NOT_SUPPORTED : body(gpu);
  });
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  return OnDeviceOrInstance(__func__, device, [&](const Gpu& gpu) {
    if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const std::uint64_t used = SweptUse(gpu) + gpu.fixed.memory_reserved;
    *memory = {gpu.fixed.memory_total, gpu.fixed.memory_total - used, used};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  return OnDeviceOrInstance(__func__, device, [&](const Gpu& gpu) {
    if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != nvmlMemory_v2) return NVML_ERROR_FUNCTION_NOT_FOUND;  // as an H200 on 580 answers
    const std::uint64_t used = SweptUse(gpu);
    const std::uint64_t reserved = gpu.fixed.memory_reserved;
    *memory = {nvmlMemory_v2, gpu.fixed.memory_total, reserved, gpu.fixed.memory_total - reserved - used,
               used};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* memory) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    constexpr std::uint64_t kUsed = 1 << 20;
    *memory = {gpu.fixed.bar1_total, gpu.fixed.bar1_total - kUsed, kUsed};
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t* memory) {
  return OnDevice(__func__, device, [&](const Gpu& gpu) {
    if (gpu.fixed.architecture < NVML_DEVICE_ARCH_HOPPER) return NVML_ERROR_NOT_SUPPORTED;
    return Give(memory, nvmlConfComputeMemSizeInfo_t{});
  });
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return Processes(__func__, device, ClientKind::kCompute, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  return Processes(__func__, device, ClientKind::kCompute, count, infos);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                  nvmlProcessInfo_v1_t* infos) {
  return Processes(__func__, device, ClientKind::kCompute, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                      nvmlProcessInfo_v2_t* infos) {
  return Processes(__func__, device, ClientKind::kGraphics, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                      nvmlProcessInfo_v2_t* infos) {
  return Processes(__func__, device, ClientKind::kGraphics, count, infos);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                   nvmlProcessInfo_v1_t* infos) {
  return Processes(__func__, device, ClientKind::kGraphics, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                        nvmlProcessInfo_v2_t*) {
  return OnDevice(__func__, device, [&](const Gpu&) { return Give(count, 0u); });  // lists no MPS client
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* rates) {
  return OnUnsplit(__func__, device, [&](const Gpu& gpu) {
    return Give(rates, nvmlUtilization_t{UtilizationPercent(gpu), MemoryUtilizationPercent(gpu)});
  });
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t* samples,
                                             unsigned* count, unsigned long long last_seen_us) {
  return OnUnsplit(__func__, device, [&](const Gpu& gpu) {
    if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    const std::uint64_t now_us = RealtimeUs();
    if (last_seen_us > now_us) return NVML_ERROR_NOT_FOUND;
    std::vector<nvmlProcessUtilizationSample_t> found;
    for (const User& user : UsersOf(gpu, ClientKind::kCompute)) {
      const unsigned busy = ProcessUtilization(*user.slot, gpu.index, MonotonicNs());
      if (busy != 0) found.push_back({user.pid, now_us, busy, busy / 2, 0, 0});
    }
    if (found.empty()) return NVML_ERROR_NOT_FOUND;
    constexpr std::size_t kMinRoom = 72;  // the size that an H200 requires, however few samples there are
    const std::size_t room = *count;
    const std::size_t needed = std::max(found.size(), kMinRoom);
    *count = static_cast<unsigned>(room < needed ? needed : found.size());
    if (samples == nullptr || room < needed) return NVML_ERROR_INSUFFICIENT_SIZE;
    std::copy(found.begin(), found.end(), samples);
    return NVML_SUCCESS;
  });
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned* percent, unsigned* period_us) {
  return OnUnsplit(__func__, device, [&](const Gpu&) {
    if (AnyNull(percent, period_us)) return NVML_ERROR_INVALID_ARGUMENT;
    *period_us = 167'000;
    return Give(percent, 0u);
  });
}
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned* percent, unsigned* period_us) {
  return nvmlDeviceGetEncoderUtilization(device, percent, period_us);
}

}  // extern "C"
}  // namespace gpuman::driver::abi
