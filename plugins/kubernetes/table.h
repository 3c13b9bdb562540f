// What gpumand is told of the containers on this node: what kubelet says of their devices, in GPUs and bytes.
// Values and a pure function; thread-compatible.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/container_types.h"
#include "plugins/kubernetes/pools.h"

namespace gpuman::kubernetes {

// Devices of one resource that a container has; others of the same resource may stand elsewhere.
struct Allocation {
  std::string name_space, pod, container, resource;
  std::vector<std::string> ids;
  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// Each container that has any of our devices, once, by its names. A container with several of our resources
// has the least limit among them on all of its GPUs. Devices of others, and of GPUs that are gone, are left
// out.
std::vector<api::GivenContainer> TableOf(std::span<const Allocation> allocations,
                                         std::span<const Pool> pools);

}  // namespace gpuman::kubernetes
