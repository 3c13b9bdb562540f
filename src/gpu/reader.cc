#include "gpu/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuman::gpu {
namespace {

using driver::NvmlError;
using driver::NvmlFailure;

// The device is fine, it just does not tell.
bool IsMerelyUntold(const NvmlError& error) {
  return error.failure == NvmlFailure::kNotSupported || error.failure == NvmlFailure::kNoFunction ||
         error.failure == NvmlFailure::kNoPermission;
}

// A process may be in both lists, with the same memory, and several times in one (a MIG instance each).
void Add(std::vector<GpuProcess>& all, const std::vector<driver::NvmlProcess>& told, ProcessKind kind) {
  const std::size_t of_other_kinds = all.size();
  for (const auto& process : told) {
    const auto same = [&](const GpuProcess& known) { return known.pid == process.pid; };
    if (const auto it =
            std::find_if(all.begin() + static_cast<std::ptrdiff_t>(of_other_kinds), all.end(), same);
        it != all.end()) {
      if (process.memory && it->memory) *it->memory += *process.memory;
      continue;
    }
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(of_other_kinds);
    if (const auto it = std::find_if(all.begin(), end, same); it != end) {
      it->kind = ProcessKind::kComputeAndGraphics;
      it->memory = std::max(it->memory, process.memory);
      continue;
    }
    all.push_back({process.pid, process.memory, kind});
  }
}

template <typename T>
std::optional<int> Whole(const driver::NvmlResult<T>& value) {
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

}  // namespace

Inventory ReadInventory(const driver::Nvml& nvml) {
  Inventory inventory;
  inventory.driver_version = nvml.DriverVersion().value_or("");
  const auto count = nvml.DeviceCount();
  if (!count) {
    inventory.problem = count.error().message;
    return inventory;
  }
  if (*count == 0) inventory.problem = "the NVIDIA driver is loaded but has no device";
  for (unsigned i = 0; i < *count; ++i) {
    const auto device = nvml.DeviceAt(i);
    auto info = device ? nvml.Info(*device) : tl::unexpected(device.error());
    if (info)
      inventory.gpus.push_back({info->index, std::move(info->uuid), std::move(info->name),
                                std::move(info->pci_bus_id), info->memory});
    else
      inventory.problem = fmt::format("GPU {} cannot be used: {}", i, info.error().message);
  }
  return inventory;
}

void Reader::SetNvml(std::shared_ptr<const driver::Nvml> nvml) {
  nvml_ = std::move(nvml);
  device_ = nullptr;
  listing_.Forget();
  health_.Forget();
}

std::optional<Sample> Reader::Read(base::MonoTime now, Depth depth) {
  if (!nvml_) {
    NvmlError none;
    none.message = "no NVIDIA driver is loaded";
    none.failure = NvmlFailure::kNoDriver;
    return Fail(now, none);
  }
  if (!device_) {
    const auto device = nvml_->DeviceByUuid(last_.uuid);
    if (!device) return Fail(now, device.error());
    device_ = *device;
  }
  const auto told = nvml_->Memory(device_);
  if (!told && !IsMerelyUntold(told.error())) return Fail(now, told.error());
  std::optional<MemoryUse> memory;
  if (told) memory = {told->total, told->used, told->free, told->reserved};
  const bool readings = depth == Depth::kReadings || depth == Depth::kAll || failed();
  listing_.Observe(now, memory != last_.memory,
                   depth == Depth::kProcesses || depth == Depth::kAll || failed());
  std::optional<std::vector<GpuProcess>> processes;
  if (!listing_.compute_due())
    processes = last_.processes;
  else if (NvmlError error; !ReadProcesses(now, processes, error))
    return Fail(now, error);
  if (!readings && memory == last_.memory && processes == last_.processes) return std::nullopt;

  last_.taken_at = now;
  last_.state = GpuState::kOk;
  last_.error.clear();
  last_.memory = memory;
  last_.processes = std::move(processes);
  if (readings) {
    last_.slow = ReadSlow();
    last_.health = health_.Read(*nvml_, device_, now);
  }
  failure_.reset();
  return last_;
}

std::optional<Sample> Reader::Fail(base::MonoTime now, const NvmlError& error) {
  device_ = nullptr;
  failure_ = error.failure;
  Sample failed;
  failed.uuid = last_.uuid;
  failed.taken_at = now;
  failed.state = GpuState::kLost;
  failed.error = error.message;
  return failed;
}

bool Reader::ReadProcesses(base::MonoTime now, std::optional<std::vector<GpuProcess>>& processes,
                           NvmlError& error) {
  const auto compute = nvml_->ComputeProcesses(device_);
  if (!compute) {
    error = compute.error();
    return IsMerelyUntold(error);
  }
  auto& all = processes.emplace();
  all.reserve(compute->size());
  Add(all, *compute, ProcessKind::kCompute);
  listing_.TookCompute(now);
  if (listing_.graphics_due()) {
    const auto graphics = nvml_->GraphicsProcesses(device_);
    if (graphics) Add(all, *graphics, ProcessKind::kGraphics);
    listing_.TookGraphics(now, graphics && !graphics->empty());
  }
  std::sort(all.begin(), all.end());
  return true;
}

SlowReadings Reader::ReadSlow() const {
  SlowReadings slow;
  if (const auto utilization = nvml_->Utilization(device_)) {
    slow.utilization_gpu = static_cast<int>(utilization->gpu);
    slow.utilization_memory = static_cast<int>(utilization->memory);
  }
  slow.temperature_c = Whole(nvml_->Temperature(device_));
  if (const auto power = nvml_->PowerMilliwatts(device_)) slow.power_w = *power / 1000.0;
  return slow;
}

}  // namespace gpuman::gpu
