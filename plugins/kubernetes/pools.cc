#include "plugins/kubernetes/pools.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_number.h"

namespace gpuman::kubernetes {
namespace {

constexpr std::string_view kSeparator = "::";

bool IsNamed(const Gpu& gpu, const std::string& name) {
  if (gpu.index && std::to_string(*gpu.index) == name) return true;
  return gpu.uuid == name || gpu.uuid == "GPU-" + name;
}

bool Names(const Resource& resource, const Gpu& gpu) {
  return std::any_of(resource.gpus.begin(), resource.gpus.end(),
                     [&](const auto& name) { return IsNamed(gpu, name); });
}

// Whether both resources compete for the same GPUs or instances: all MIG resources of one profile do, and so
// do all other resources.
bool Compete(const Resource& a, const Resource& b) {
  if (a.kind == ResourceKind::kMig || b.kind == ResourceKind::kMig)
    return a.kind == b.kind && a.profile == b.profile;
  return true;
}

// Whether the GPU (for a MIG resource: its instances) is in the resource's pool: the resource names the GPU,
// or takes all remaining GPUs and no other resource names this one. A GPU that two resources name is in no
// pool: that is a problem.
bool Owns(const Config& config, const Resource& resource, const Gpu& gpu,
          std::vector<std::string>& problems) {
  const bool names = Names(resource, gpu);
  for (const auto& other : config.resources) {
    if (&other == &resource || !Compete(resource, other) || !Names(other, gpu)) continue;
    if (!names) return false;
    problems.push_back(fmt::format("{} is named for {} and for {}, so it is given out as neither", gpu.uuid,
                                   resource.name, other.name));
    return false;
  }
  return names || resource.gpus.empty();
}

PoolGpu UnitOf(const Gpu& gpu) {
  PoolGpu unit;
  unit.uuid = unit.gpu = gpu.uuid;
  unit.healthy = gpu.healthy;
  unit.memory_node = gpu.memory_node;
  unit.minor = gpu.minor;
  unit.memory = gpu.memory.value_or(base::Bytes{});
  return unit;
}

void AddParts(const Resource& resource, const Gpu& gpu, ResourcePools& pools, ResourcePool& pool) {
  if (!gpu.memory) return;  // the number of devices follows from the size, which is not known yet
  PoolGpu unit = UnitOf(gpu);
  unit.numbered = true;
  if (resource.kind == ResourceKind::kShared) {
    unit.devices = resource.replicas;
  } else {
    unit.memory = resource.size;
    unit.devices = static_cast<unsigned>((*gpu.memory - resource.reserve).count / resource.size.count);
  }
  if (unit.devices == 0)
    pools.problems.push_back(fmt::format("{} has {}: too little for one device of {}", gpu.uuid,
                                         base::FormatBytes(*gpu.memory), resource.name));
  else
    pool.units.push_back(std::move(unit));
}

void AddGpu(const Resource& resource, const Gpu& gpu, ResourcePools& pools, ResourcePool& pool) {
  if (resource.kind == ResourceKind::kMig) {
    for (const auto& instance : gpu.instances) {
      if (instance.profile != resource.profile) continue;
      PoolGpu unit = UnitOf(gpu);
      unit.uuid = instance.uuid;
      unit.memory = instance.memory;
      unit.instance = instance;
      pool.units.push_back(std::move(unit));
    }
  } else if (gpu.split) {
    return;  // CUDA sees only its instances
  } else if (resource.kind == ResourceKind::kWhole) {
    pool.units.push_back(UnitOf(gpu));
  } else {
    AddParts(resource, gpu, pools, pool);
  }
}

}  // namespace

ResourcePools MakePools(const Config& config, const Inventory& inventory) {
  ResourcePools pools;
  for (const auto& resource : config.resources) {
    ResourcePool pool{resource, {}};
    for (const auto& gpu : inventory.gpus)
      if (Owns(config, resource, gpu, pools.problems)) AddGpu(resource, gpu, pools, pool);
    for (const auto& name : resource.gpus) {
      const auto is_it = [&](const Gpu& gpu) { return IsNamed(gpu, name); };
      if (!inventory.gpus.empty() && std::none_of(inventory.gpus.begin(), inventory.gpus.end(), is_it))
        pools.problems.push_back(
            fmt::format("{} names GPU {}, which this node does not have", resource.name, name));
    }
    pools.pools.push_back(std::move(pool));
  }
  return pools;
}

std::string DeviceId(const PoolGpu& unit, unsigned number) {
  return unit.numbered ? fmt::format("{}{}{}", unit.uuid, kSeparator, number) : unit.uuid;
}

std::vector<Device> DevicesOf(const ResourcePool& pool, bool away) {
  std::vector<Device> devices;
  for (const auto& unit : pool.units) {
    for (unsigned i = 0; i < unit.devices; ++i)
      devices.push_back({DeviceId(unit, i), unit.healthy && !away, unit.memory_node});
  }
  return devices;
}

const PoolGpu* FindUnit(const ResourcePool& pool, std::string_view id) {
  const auto cut = id.find(kSeparator);
  const auto uuid = id.substr(0, cut);
  for (const auto& unit : pool.units) {
    if (unit.uuid != uuid || unit.numbered != (cut != std::string_view::npos)) continue;
    if (!unit.numbered) return &unit;
    const auto number = base::ParseNumber<unsigned>(id.substr(cut + kSeparator.size()));
    // Each id has one spelling: "01" would be a second id of the same device.
    return number && *number < unit.devices && DeviceId(unit, *number) == id ? &unit : nullptr;
  }
  return nullptr;
}

}  // namespace gpuman::kubernetes
