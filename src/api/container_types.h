// Containers of Kubernetes: what they were given, and where they run. Values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/compute_share.h"

namespace gpuman::api {

// Part of a JobView: the container that the job is.
struct ContainerName {
  std::string name_space, pod, container;
};

// What one container was given of this node's GPUs.
struct ContainerAllocation {
  std::string name_space, pod, container;
  std::string resource;               // the Kubernetes resource
  std::vector<std::string> gpus;      // UUIDs of GPUs or instances
  std::optional<base::Bytes> memory;  // on each of them; absent: no limit
  bool share = false;                 // it takes turns; in its turn it may use all of the memory
  std::optional<int> priority;        // absent: the pod's class decides
  // Of the time of each of its GPUs; only where it takes turns.
  std::optional<spec::ComputeShare> compute{};
  friend bool operator==(const ContainerAllocation&, const ContainerAllocation&) = default;
};

// PUT /v1/containers: the table of all containers. A container that is not in the list any more keeps what it
// was given until its processes have ended.
struct ContainerTable {
  std::vector<ContainerAllocation> containers;
};

// Paths on this node that a container needs so that its limit holds where its processes allocate memory.
struct ContainerMounts {
  std::string shim_library;      // libgpuman.so; at the same path in the container
  std::string preload;           // becomes its /etc/ld.so.preload
  std::string socket_directory;  // holds shim.sock, and nothing else
  friend bool operator==(const ContainerMounts&, const ContainerMounts&) = default;
};

struct ContainersView {
  std::vector<ContainerAllocation> containers;
  std::optional<ContainerMounts> files;  // null: no library is preloaded on this node
};

}  // namespace gpuman::api
