#include "plugins/kubernetes/table.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace gpuman::kubernetes {
namespace {

struct Parts {
  api::ContainerAllocation given;
  std::map<std::string, base::Bytes> limits;  // by resource
};

void Add(const ResourcePool& pool, const ContainerDeviceIds& allocation, Parts& parts) {
  auto& given = parts.given;
  const ResourceKind kind = pool.resource.kind;
  for (const auto& id : allocation.ids) {
    const PoolGpu* unit = FindUnit(pool, id);
    if (!unit) continue;
    if (std::find(given.gpus.begin(), given.gpus.end(), unit->uuid) == given.gpus.end())
      given.gpus.push_back(unit->uuid);
    if (kind == ResourceKind::kMemory || kind == ResourceKind::kSlice)
      parts.limits[pool.resource.name] += unit->memory;
    given.share = given.share || kind == ResourceKind::kShared;
  }
  if (given.gpus.empty()) return;
  if (given.resource.empty()) given.resource = pool.resource.name;
  if (pool.resource.compute) given.compute = pool.resource.compute;
  if (pool.resource.priority) given.priority = std::max(given.priority.value_or(0), *pool.resource.priority);
}

}  // namespace

std::vector<api::ContainerAllocation> TableOf(std::span<const ContainerDeviceIds> allocations,
                                              std::span<const ResourcePool> pools) {
  std::map<std::tuple<std::string, std::string, std::string>, Parts> containers;
  for (const auto& allocation : allocations) {
    const auto pool = std::find_if(pools.begin(), pools.end(), [&](const ResourcePool& each) {
      return each.resource.name == allocation.resource;
    });
    if (pool == pools.end()) continue;
    auto& parts = containers[{allocation.name_space, allocation.pod, allocation.container}];
    parts.given.name_space = allocation.name_space;
    parts.given.pod = allocation.pod;
    parts.given.container = allocation.container;
    Add(*pool, allocation, parts);
  }
  std::vector<api::ContainerAllocation> table;
  for (auto& [names, parts] : containers) {
    if (parts.given.gpus.empty()) continue;
    for (const auto& [resource, limit] : parts.limits)
      parts.given.memory = std::min(parts.given.memory.value_or(limit), limit);
    table.push_back(std::move(parts.given));
  }
  return table;
}

}  // namespace gpuman::kubernetes
