#include "plugins/kubernetes/inventory.h"

#include <algorithm>

namespace gpuman::kubernetes {
namespace {

template <typename List>
auto FindUuid(List& list, const std::string& uuid) {
  return std::find_if(list.begin(), list.end(), [&](const auto& element) { return element.uuid == uuid; });
}

std::vector<Instance> InstancesOf(const api::MigGpu& mig) {
  std::vector<Instance> instances;
  for (const auto& instance : mig.instances) {
    for (const auto& compute : instance.compute)
      if (compute.uuid)
        instances.push_back({*compute.uuid, instance.profile, instance.memory, instance.id, compute.id});
  }
  std::sort(instances.begin(), instances.end(), [](const auto& a, const auto& b) { return a.uuid < b.uuid; });
  return instances;
}

}  // namespace

Inventory InventoryOf(const api::GpuList& list, const api::MigReport& mig,
                      const std::vector<NodeGpu>& files) {
  Inventory inventory;
  inventory.incomplete = list.gpus.empty();
  for (const auto& view : list.gpus) {
    if (view.uuid.starts_with("MIG-")) continue;  // their GPU lists them
    Gpu gpu;
    gpu.index = view.index;
    gpu.uuid = view.uuid;
    if (view.memory) gpu.memory = view.memory->total;
    gpu.healthy = view.memory && view.health.state != "unhealthy";
    if (!view.memory && view.health.state != "unhealthy") inventory.incomplete = true;
    if (const auto split = FindUuid(mig.gpus, view.uuid); split != mig.gpus.end()) {
      gpu.split = split->enabled;
      if (gpu.split) gpu.instances = InstancesOf(*split);
    }
    if (const auto file = FindUuid(files, view.uuid); file != files.end()) {
      gpu.minor = file->minor;
      gpu.memory_node = file->memory_node;
    }
    inventory.gpus.push_back(std::move(gpu));
  }
  return inventory;
}

Inventory Merge(const Inventory& before, Inventory now) {
  for (const auto& gpu : before.gpus) {
    const auto same = FindUuid(now.gpus, gpu.uuid);
    if (same == now.gpus.end()) {
      now.gpus.push_back(gpu);
      now.gpus.back().healthy = false;
      continue;
    }
    // A GPU that does not answer reports no size; the size has not changed.
    if (!same->memory) same->memory = gpu.memory;
    if (!same->minor) same->minor = gpu.minor;
    if (!same->memory_node) same->memory_node = gpu.memory_node;
  }
  return now;
}

}  // namespace gpuman::kubernetes
