// GPUs and configurations for the tests of the plugin's decisions.
#pragma once

#include <string>
#include <vector>

#include "plugins/kubernetes/pools.h"

namespace gpuman::kubernetes {

// "GPU-0", "GPU-1", … of `gib` each; the first half on NUMA node 0, the others on 1.
inline Inventory Machine(int gpus, std::uint64_t gib) {
  Inventory inventory;
  for (int i = 0; i < gpus; ++i) {
    Gpu gpu;
    gpu.index = i;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.memory = base::GiB(gib);
    gpu.healthy = true;
    gpu.minor = static_cast<unsigned>(i);
    gpu.memory_node = i < gpus / 2 ? 0 : 1;
    inventory.gpus.push_back(gpu);
  }
  return inventory;
}

inline Resource ResourceOf(ResourceKind kind, std::string name, std::vector<std::string> gpus = {}) {
  Resource resource;
  resource.name = std::move(name);
  resource.kind = kind;
  resource.gpus = std::move(gpus);
  return resource;
}

inline Config ConfigOf(std::vector<Resource> resources) {
  Config config;
  config.resources = std::move(resources);
  return config;
}

// Ids "UUID::FIRST" to "UUID::LAST".
inline std::vector<std::string> Parts(const std::string& uuid, unsigned first, unsigned last) {
  std::vector<std::string> ids;
  for (unsigned i = first; i <= last; ++i) ids.push_back(uuid + "::" + std::to_string(i));
  return ids;
}

}  // namespace gpuman::kubernetes
