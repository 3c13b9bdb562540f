// Which devices each resource offers: the configuration applied to the GPUs that there are.
//
// A GPU is in one resource's pool at most, and stays there: kubelet never says that a device is free again,
// so what a GPU is given out as cannot follow from what is in use. What would be in two pools is in neither,
// and said. Values and pure functions; thread-compatible.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugins/kubernetes/config.h"
#include "plugins/kubernetes/inventory.h"

namespace gpuman::kubernetes {

// One device, as kubelet has it. Its id says what it is for as long as the node has that GPU: the UUID, and
// for parts of a GPU "::" and a number.
struct Device {
  std::string id;
  bool healthy = false;
  std::optional<int> memory_node;
  friend bool operator==(const Device&, const Device&) = default;
};

// A GPU or MIG instance with the devices that it is given out as.
struct Unit {
  std::string uuid;
  std::string gpu;  // the GPU that it is or is part of
  bool healthy = false;
  std::optional<int> memory_node;
  base::Bytes memory;  // of one of its devices
  unsigned devices = 1;
  bool numbered = false;  // whether ids have a number
  std::optional<unsigned> minor;
  std::optional<Instance> instance;
  friend bool operator==(const Unit&, const Unit&) = default;
};

struct Pool {
  Resource resource;
  std::vector<Unit> units;  // in the order of the GPUs
  friend bool operator==(const Pool&, const Pool&) = default;
};

struct Pools {
  std::vector<Pool> pools;            // one for each resource, in their order
  std::vector<std::string> problems;  // sentences for the log
};
Pools MakePools(const Config& config, const Inventory& inventory);

// Every device of the pool; with `away` none is healthy: gpumand does not answer, so nobody knows.
std::vector<Device> DevicesOf(const Pool& pool, bool away);

std::string DeviceId(const Unit& unit, unsigned number);
// The unit that the id's device belongs to; nullptr: there is no such device.
const Unit* FindUnit(const Pool& pool, std::string_view id);

}  // namespace gpuman::kubernetes
