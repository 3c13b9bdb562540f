// The devices of each resource: the configuration applied to the GPUs of the node.
//
// A GPU is in at most one resource's pool, and stays there: kubelet never says that a device is free again,
// so the plugin cannot choose a GPU's resource by its use. A GPU that would be in two pools is in neither,
// and `problems` reports it. Values and pure functions; thread-compatible.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugins/kubernetes/config.h"
#include "plugins/kubernetes/inventory.h"

namespace gpuman::kubernetes {

// One device as kubelet knows it. Its id is the UUID; for a part of a GPU, "::" and a number follow. The id
// keeps its meaning as long as the node has that GPU.
struct Device {
  std::string id;
  bool healthy = false;
  std::optional<int> memory_node;
  friend bool operator==(const Device&, const Device&) = default;
};

// A GPU or MIG instance, with the devices that it is divided into.
struct PoolGpu {
  std::string uuid;
  std::string gpu;  // the GPU itself, or the GPU of the instance
  bool healthy = false;
  std::optional<int> memory_node;
  base::Bytes memory;  // of one of its devices
  unsigned devices = 1;
  bool numbered = false;  // ids have a number
  std::optional<unsigned> minor;
  std::optional<Instance> instance;
  friend bool operator==(const PoolGpu&, const PoolGpu&) = default;
};

struct ResourcePool {
  Resource resource;
  std::vector<PoolGpu> units;  // in the order of the GPUs
  friend bool operator==(const ResourcePool&, const ResourcePool&) = default;
};

struct ResourcePools {
  std::vector<ResourcePool> pools;    // one for each resource, in their order
  std::vector<std::string> problems;  // sentences for the log
};
ResourcePools MakePools(const Config& config, const Inventory& inventory);

// Every device of the pool; with `away` no device is healthy: gpumand does not answer, so their health is
// unknown.
std::vector<Device> DevicesOf(const ResourcePool& pool, bool away);

std::string DeviceId(const PoolGpu& unit, unsigned number);
// The unit of the device with this id; nullptr: no such device.
const PoolGpu* FindUnit(const ResourcePool& pool, std::string_view id);

}  // namespace gpuman::kubernetes
