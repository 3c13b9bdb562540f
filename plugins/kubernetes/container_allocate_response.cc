#include "plugins/kubernetes/container_allocate_response.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace gpuman::kubernetes {
namespace {

using base::ErrorCode;

struct Share {
  std::vector<const PoolGpu*> units;  // each once, in the order of the ids
  unsigned devices = 0;
};

base::Result<Share> ShareOf(const ResourcePool& pool, bool away, std::span<const std::string> ids) {
  Share share;
  std::set<std::string_view> seen;
  for (const auto& id : ids) {
    const PoolGpu* unit = FindUnit(pool, id);
    if (!unit)
      return base::Fail(ErrorCode::kNotFound, fmt::format("{} has no device {}", pool.resource.name, id));
    if (!seen.insert(id).second)
      return base::Fail(ErrorCode::kConflict, fmt::format("device {} is asked for twice", id));
    if (away)
      return base::Fail(ErrorCode::kConflict,
                        fmt::format("gpumand does not answer, so nobody knows how {} is", unit->uuid));
    if (!unit->healthy) return base::Fail(ErrorCode::kConflict, fmt::format("{} is not healthy", unit->gpu));
    if (std::find(share.units.begin(), share.units.end(), unit) == share.units.end())
      share.units.push_back(unit);
    ++share.devices;
  }
  if (ids.empty()) return base::Fail(ErrorCode::kInvalidArgument, "no device is asked for");
  return share;
}

base::Result<> CheckShape(const ResourcePool& pool, const Share& share) {
  const auto& name = pool.resource.name;
  switch (pool.resource.kind) {
    case ResourceKind::kWhole:
      return {};
    case ResourceKind::kMemory:
    case ResourceKind::kSlice:
      if (share.units.size() == 1) return {};
      return base::Fail(
          ErrorCode::kConflict,
          fmt::format("{} of {} would be spread over {} GPUs: no GPU of this node has that many free",
                      share.devices, name, share.units.size()));
    case ResourceKind::kShared:
      if (share.devices == 1) return {};
      return base::Fail(
          ErrorCode::kConflict,
          fmt::format("a container can have 1 of {}, not {}: each is a whole GPU's memory in turns", name,
                      share.devices));
    case ResourceKind::kMig:
      if (share.devices == 1) return {};
      return base::Fail(
          ErrorCode::kUnsatisfiable,
          fmt::format("a container can have 1 of {}, not {}: CUDA shows a process one MIG instance", name,
                      share.devices));
  }
  return {};
}

base::Result<> AddNodes(const Share& share, const std::filesystem::path& root,
                        ContainerAllocateResponse& grant) {
  for (const PoolGpu* unit : share.units) {
    if (!unit->minor)
      return base::Fail(
          ErrorCode::kUnavailable,
          fmt::format("/proc/driver/nvidia/gpus does not tell the device node of {}", unit->gpu));
    grant.nodes.push_back(fmt::format("/dev/nvidia{}", *unit->minor));
    if (!unit->instance) continue;
    const auto capabilities =
        ReadCapabilities(root, *unit->minor, unit->instance->gpu_instance, unit->instance->compute_instance);
    if (capabilities.empty())
      return base::Fail(
          ErrorCode::kUnavailable,
          fmt::format("/proc/driver/nvidia/capabilities does not tell the device nodes of {}", unit->uuid));
    for (const auto number : capabilities)
      grant.nodes.push_back(fmt::format("/dev/nvidia-caps/nvidia-cap{}", number));
  }
  auto common = ReadCommonNodes(root);
  if (common.empty())
    return base::Fail(
        ErrorCode::kUnavailable,
        "there is no /dev/nvidiactl: the plugin has to see the node's /dev to hand out device nodes");
  for (auto& node : common) grant.nodes.push_back(std::move(node));
  return {};
}

// Where the shim looks for the socket if the program's environment lacks the variable.
constexpr const char* kSocketDirectory = "/run/gpuman";

void AddLibrary(const api::ContainerMounts& files, ResourceKind kind, ContainerAllocateResponse& grant) {
  grant.mounts.push_back({files.shim_library, files.shim_library});
  grant.mounts.push_back({files.preload, "/etc/ld.so.preload"});
  grant.mounts.push_back({files.socket_directory, kSocketDirectory});
  grant.environment["GPUMAN_SHIM_SOCKET"] = fmt::format("{}/shim.sock", kSocketDirectory);
  if (kind == ResourceKind::kShared) grant.environment["GPUMAN_SHIM_EVICTABLE"] = "1";
}

}  // namespace

base::Result<ContainerAllocateResponse> MakeGrant(const Config& config, const ResourcePool& pool,
                                                  const std::optional<api::ContainerMounts>& files, bool away,
                                                  std::span<const std::string> ids,
                                                  const std::filesystem::path& root) {
  GPUMAN_ASSIGN(const Share share, ShareOf(pool, away, ids));
  GPUMAN_TRY(CheckShape(pool, share));
  ContainerAllocateResponse grant;
  grant.environment = config.environment;
  grant.mounts = config.mounts;
  std::vector<std::string> uuids;
  for (const PoolGpu* unit : share.units) uuids.push_back(unit->uuid);
  const auto list = fmt::format("{}", fmt::join(uuids, ","));
  grant.environment["CUDA_VISIBLE_DEVICES"] = list;
  grant.environment["GPUMAN_RESOURCE"] = pool.resource.name;
  if (pool.resource.kind == ResourceKind::kMemory || pool.resource.kind == ResourceKind::kSlice)
    grant.environment["GPUMAN_MEMORY"] = std::to_string(share.units.front()->memory.count * share.devices);
  if (config.limits && config.preload && files) AddLibrary(*files, pool.resource.kind, grant);
  if (config.handing.environment) grant.environment["NVIDIA_VISIBLE_DEVICES"] = list;
  if (config.handing.cdi)
    for (const auto& uuid : uuids) grant.cdi.push_back(fmt::format("{}={}", config.cdi_kind, uuid));
  if (config.handing.nodes) GPUMAN_TRY(AddNodes(share, root, grant));
  return grant;
}

}  // namespace gpuman::kubernetes
