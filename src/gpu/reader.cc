#include "gpu/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuman::gpu {
namespace {

using driver::NvmlError;
using driver::NvmlFailure;

constexpr unsigned kSlowReadsPerBusy = 10;

// True: the device works; only this value is not available.
bool IsMerelyUntold(const NvmlError& error) {
  return error.failure == NvmlFailure::kNotSupported || error.failure == NvmlFailure::kNoFunction ||
         error.failure == NvmlFailure::kNoPermission;
}

// A process may be in both lists, with the same memory, and several times in one list (once for each MIG
// instance).
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

namespace {

Link LinkBetween(const driver::Nvml& nvml, driver::NvmlDevice a, driver::NvmlDevice b) {
  if (nvml.HaveNvLink(a, b).value_or(false)) return Link::kNvLink;
  const auto level = nvml.CommonAncestor(a, b);
  if (!level) return Link::kUnknown;
  switch (*level) {
    case driver::abi::NVML_TOPOLOGY_INTERNAL:
    case driver::abi::NVML_TOPOLOGY_SINGLE:
    case driver::abi::NVML_TOPOLOGY_MULTIPLE:
      return Link::kSwitch;
    case driver::abi::NVML_TOPOLOGY_HOSTBRIDGE:
      return Link::kHostBridge;
    case driver::abi::NVML_TOPOLOGY_NODE:
      return Link::kNode;
    case driver::abi::NVML_TOPOLOGY_SYSTEM:
      return Link::kSystem;
  }
  return Link::kUnknown;
}

std::vector<Link> LinksAmong(const driver::Nvml& nvml, const std::vector<driver::NvmlDevice>& devices) {
  const std::size_t count = devices.size();
  std::vector<Link> links(count * count, Link::kUnknown);
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = a + 1; b < count; ++b)
      if (devices[a] && devices[b])
        links[a * count + b] = links[b * count + a] = LinkBetween(nvml, devices[a], devices[b]);
  return links;
}

bool IsSplit(const driver::Nvml& nvml, driver::NvmlDevice device) {
  const auto mode = nvml.MigMode(device);
  return mode && mode->enabled;
}

// "1g.18gb" of "NVIDIA H200 MIG 1g.18gb".
std::string ProfileIn(const std::string& name) {
  constexpr std::string_view kMark = " MIG ";
  const auto at = name.rfind(kMark);
  return at == std::string::npos ? std::string() : name.substr(at + kMark.size());
}

// Numbers may have gaps: the number of an instance that is being made or is gone is free.
template <typename Body>
void ForEachInstance(const driver::Nvml& nvml, driver::NvmlDevice device, Body body) {
  const unsigned most = nvml.MostInstances(device).value_or(0);
  for (unsigned number = 0; number < most; ++number)
    if (const auto instance = nvml.InstanceAt(device, number)) body(number, *instance);
}

void AddInstances(const driver::Nvml& nvml, driver::NvmlDevice device, const Gpu& parent,
                  std::vector<Gpu>& gpus) {
  ForEachInstance(nvml, device, [&](unsigned number, driver::NvmlDevice instance) {
    auto info = nvml.InstanceInfo(instance);
    if (!info) return;  // it was removed this moment; the next look sees the change
    Gpu gpu{parent.index, std::move(info->uuid), std::move(info->name), parent.pci_bus_id, info->memory};
    gpu.mig = Instance{parent.uuid, number, info->gpu_instance, info->compute_instance, ProfileIn(gpu.name)};
    gpus.push_back(std::move(gpu));
  });
}

}  // namespace

Inventory ReadInventory(const driver::Nvml& nvml) {
  Inventory inventory;
  std::vector<driver::NvmlDevice> devices;
  inventory.driver_version = nvml.DriverVersion().value_or("");
  if (const auto cuda = nvml.CudaVersion())
    inventory.cuda_version = fmt::format("{}.{}", *cuda / 1000, *cuda % 1000 / 10);
  const auto count = nvml.DeviceCount();
  if (!count) {
    inventory.problem = count.error().message;
    return inventory;
  }
  if (*count == 0) inventory.problem = "the NVIDIA driver is loaded but has no device";
  for (unsigned i = 0; i < *count; ++i) {
    const auto device = nvml.DeviceAt(i);
    auto info = device ? nvml.Info(*device) : tl::unexpected(device.error());
    if (!info) {
      inventory.problem = fmt::format("GPU {} cannot be used: {}", i, info.error().message);
      continue;
    }
    Gpu gpu{info->index, std::move(info->uuid), std::move(info->name), std::move(info->pci_bus_id),
            info->memory};
    gpu.split = IsSplit(nvml, *device);
    inventory.gpus.push_back(gpu);
    devices.push_back(*device);
    if (gpu.split) AddInstances(nvml, *device, gpu, inventory.gpus);
    devices.resize(inventory.gpus.size(), nullptr);
  }
  inventory.links = LinksAmong(nvml, devices);
  return inventory;
}

Divisions ReadDivisions(const driver::Nvml& nvml) {
  Divisions divisions;
  const unsigned count = nvml.DeviceCount().value_or(0);
  for (unsigned i = 0; i < count; ++i) {
    const auto device = nvml.DeviceAt(i);
    const auto mode = device ? nvml.MigMode(*device) : tl::unexpected(device.error());
    if (!mode && !IsMerelyUntold(mode.error())) continue;
    Division& division = divisions[i];
    division.split = mode && mode->enabled;
    if (!division.split) continue;
    ForEachInstance(nvml, *device, [&](unsigned, driver::NvmlDevice instance) {
      if (auto uuid = nvml.Uuid(instance)) division.instances.push_back(std::move(*uuid));
    });
  }
  return divisions;
}

Divisions DivisionsOf(const Inventory& inventory) {
  Divisions divisions;
  for (const auto& gpu : inventory.gpus) {
    Division& division = divisions[gpu.index];
    if (gpu.mig)
      division.instances.push_back(gpu.uuid);
    else
      division.split = gpu.split;
  }
  return divisions;
}

bool IsDividedAnew(const Divisions& before, const Divisions& seen) {
  return std::any_of(seen.begin(), seen.end(), [&](const auto& one) {
    const auto known = before.find(one.first);
    return known != before.end() && known->second != one.second;
  });
}

void Reader::SetNvml(std::shared_ptr<const driver::Nvml> nvml) {
  nvml_ = std::move(nvml);
  device_ = nullptr;
  listing_.Forget();
  health_.Forget();
  details_.Forget();
  percents_.Forget();
}

std::optional<GpuSample> Reader::Read(base::MonoTime now, ReadDepth depth, DetailsWanted details) {
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
  std::optional<GpuMemoryInfo> memory;
  if (told) memory = {told->total, told->used, told->free, told->reserved};
  const bool readings = depth == ReadDepth::kReadings || depth == ReadDepth::kAll || failed();
  listing_.Observe(now, memory != last_.memory,
                   depth == ReadDepth::kProcesses || depth == ReadDepth::kAll || failed());
  std::optional<std::vector<GpuProcess>> processes;
  if (!listing_.compute_due())
    processes = last_.processes;
  else if (NvmlError error; !ReadProcesses(now, processes, error))
    return Fail(now, error);
  if (!readings && memory == last_.memory && processes == last_.processes) return std::nullopt;

  last_.taken_at = now;
  last_.state = GpuReachability::kOk;
  last_.error.clear();
  last_.memory = memory;
  last_.processes = std::move(processes);
  last_.busy.reset();
  last_.work.clear();
  if (readings && !IsInstance(last_.uuid)) {
    last_.slow = ReadSlow(now);
    last_.health = health_.Read(*nvml_, device_, now);
    last_.details = details_.Read(*nvml_, device_, details);
    const bool somebody = last_.processes && !last_.processes->empty();
    const bool several = somebody && last_.processes->size() > 1;
    const bool shown = details != DetailsWanted::kNone;
    if ((slow_reads_++ % kSlowReadsPerBusy == 0 || several || shown) && somebody) ReadBusy(now);
    if (shown && last_.processes) last_.details.process_percent = percents_.Of(*last_.processes);
  }
  failure_.reset();
  return last_;
}

std::optional<GpuSample> Reader::Fail(base::MonoTime now, const NvmlError& error) {
  device_ = nullptr;
  failure_ = error.failure;
  GpuSample failed;
  failed.uuid = last_.uuid;
  failed.taken_at = now;
  failed.state = GpuReachability::kLost;
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

void Reader::ReadBusy(base::MonoTime now) {
  const auto told = nvml_->BusyProcesses(device_, busy_since_us_);
  if (!told) return percents_.Forget();
  percents_.Take(now, *told);
  auto& busy = last_.busy.emplace();
  for (const auto& process : *told) {
    busy.push_back(process.pid);
    last_.work[process.pid] += process.work;
    busy_since_us_ = std::max(busy_since_us_, process.time_us);
  }
}

std::optional<EnergyReading> Reader::ReadEnergy(base::MonoTime now) {
  if (!nvml_ || !device_ || failed() || IsInstance(last_.uuid)) return std::nullopt;
  const auto energy = nvml_->EnergyMillijoules(device_);
  if (!energy || *energy == last_energy_) return std::nullopt;
  last_energy_ = *energy;
  return EnergyReading{*energy, now};
}

SlowReadings Reader::ReadSlow(base::MonoTime now) const {
  SlowReadings slow;
  if (const auto utilization = nvml_->Utilization(device_)) {
    slow.utilization_gpu = static_cast<int>(utilization->gpu);
    slow.utilization_memory = static_cast<int>(utilization->memory);
  }
  slow.temperature_c = Whole(nvml_->Temperature(device_));
  if (const auto power = nvml_->PowerMilliwatts(device_)) slow.power_w = *power / 1000.0;
  if (const auto energy = nvml_->EnergyMillijoules(device_)) slow.energy = {*energy, now};
  return slow;
}

}  // namespace gpuman::gpu
