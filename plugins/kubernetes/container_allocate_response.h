// What a container gets for the devices that kubelet allocated to it.
//
// The answer depends only on the ids, the pools and the node's files: kubelet keeps it and uses it again
// after a restart, so no part of the answer may expire. Thread-compatible.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/kubernetes/config.h"
#include "plugins/kubernetes/pools.h"

namespace gpuman::kubernetes {

struct ContainerAllocateResponse {
  std::map<std::string, std::string> environment;
  std::vector<MountRule> mounts;
  std::vector<std::string> nodes;  // /dev/…, the same path inside
  std::vector<std::string> cdi;    // "nvidia.com/gpu=GPU-…"
  friend bool operator==(const ContainerAllocateResponse&, const ContainerAllocateResponse&) = default;
};

// kNotFound: no device has such an id. kConflict: parts of two GPUs, two turns on shared GPUs, a device that
// occurs twice, or an unhealthy device. kUnsatisfiable: two MIG instances, of which CUDA would see only one.
// kUnavailable: the driver's files do not name the device nodes that are needed. `root` holds /proc and /dev;
// `files` as in Inventory.
base::Result<ContainerAllocateResponse> MakeGrant(const Config& config, const ResourcePool& pool,
                                                  const std::optional<api::ContainerMounts>& files, bool away,
                                                  std::span<const std::string> ids,
                                                  const std::filesystem::path& root);

}  // namespace gpuman::kubernetes
