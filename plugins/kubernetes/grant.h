// What a container gets for the devices that kubelet allocated to it.
//
// The answer depends on the ids, the pools and the node's files alone: kubelet keeps it and uses it again
// when it restarts, so nothing in it may expire. Thread-compatible.
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

struct Grant {
  std::map<std::string, std::string> environment;
  std::vector<MountRule> mounts;
  std::vector<std::string> nodes;  // /dev/…, the same inside
  std::vector<std::string> cdi;    // "nvidia.com/gpu=GPU-…"
  friend bool operator==(const Grant&, const Grant&) = default;
};

// kNotFound: an id that no device has. kConflict: parts of two GPUs, two turns on shared GPUs, a device
// twice, or one that is not healthy. kUnsatisfiable: two MIG instances, of which CUDA would see one.
// kUnavailable: the driver's files do not name the nodes that are asked for. `root` is where /proc and /dev
// begin; `files` as in Inventory.
base::Result<Grant> MakeGrant(const Config& config, const Pool& pool,
                              const std::optional<api::ContainerFiles>& files, bool away,
                              std::span<const std::string> ids, const std::filesystem::path& root);

}  // namespace gpuman::kubernetes
