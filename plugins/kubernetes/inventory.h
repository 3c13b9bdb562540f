// The GPUs of this node: what gpumand reports, and what the driver's files add.
//
// Values and a pure function; thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/container_types.h"
#include "api/mig_types.h"
#include "api/types.h"
#include "base/units.h"
#include "plugins/kubernetes/node_files.h"

namespace gpuman::kubernetes {

struct Instance {
  std::string uuid;  // "MIG-…"
  std::string profile;
  base::Bytes memory;
  unsigned gpu_instance = 0, compute_instance = 0;
  friend bool operator==(const Instance&, const Instance&) = default;
};

struct Gpu {
  std::optional<int> index;
  std::string uuid;
  std::optional<base::Bytes> memory;
  bool healthy = false;
  bool split = false;               // in MIG mode: its instances are allocated, not the GPU
  std::vector<Instance> instances;  // ordered by UUID
  std::optional<unsigned> minor;    // the number of its device node
  std::optional<int> memory_node;   // NUMA
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Inventory {
  std::vector<Gpu> gpus;
  // gpumand has just started and does not know all facts yet; no event will announce them.
  bool incomplete = false;
  // What containers need for the shim to hold their limits; nullopt: the shim is not available.
  std::optional<api::ContainerMounts> files{};
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// Degraded GPUs count as healthy, since they work.
Inventory InventoryOf(const api::GpuList& gpus, const api::MigReport& mig, const std::vector<NodeGpu>& files);

// A GPU that was known before and is missing now stays as an unhealthy GPU: a container may have it.
Inventory Merge(const Inventory& before, Inventory now);

}  // namespace gpuman::kubernetes
