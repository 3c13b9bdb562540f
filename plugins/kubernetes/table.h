// The table of containers for gpumand: kubelet's devices of each container, as GPUs and bytes. Values and a
// pure function; thread-compatible.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/container_types.h"
#include "plugins/kubernetes/pools.h"

namespace gpuman::kubernetes {

// Devices of one resource that a container has; another entry may have more of the same resource.
struct ContainerDeviceIds {
  std::string name_space, pod, container, resource;
  std::vector<std::string> ids;
  friend bool operator==(const ContainerDeviceIds&, const ContainerDeviceIds&) = default;
};

// Lists each container that has any of the plugin's devices once, with its names. A container with several of
// the plugin's resources gets the smallest of their limits on all of its GPUs. Devices of other plugins, and
// of GPUs that are gone, are left out.
std::vector<api::ContainerAllocation> TableOf(std::span<const ContainerDeviceIds> allocations,
                                              std::span<const ResourcePool> pools);

}  // namespace gpuman::kubernetes
