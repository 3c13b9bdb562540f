#include "daemon/queue/allowed_gpus.h"

#include <algorithm>
#include <vector>

namespace gpuman::daemon {
namespace {

bool Names(const std::vector<gpu::Gpu>& named, const gpu::Gpu& gpu) {
  return std::any_of(named.begin(), named.end(), [&](const gpu::Gpu& one) {
    return one.uuid == gpu.uuid || (gpu.mig && one.uuid == gpu.mig->parent);
  });
}

bool Contains(const AllowedGpus& allowed, const gpu::Gpu& gpu) {
  return !allowed || allowed->contains(gpu.uuid) || (gpu.mig && allowed->contains(gpu.mig->parent));
}

}  // namespace

base::Result<AllowedGpus> ChangeAllowed(std::span<const gpu::Gpu> gpus, const AllowedGpus& before,
                                        std::span<const std::string> allow,
                                        std::span<const std::string> restrict_these) {
  GPUMAN_ASSIGN(const auto added, gpu::SelectAll(gpus, allow));
  GPUMAN_ASSIGN(const auto removed, gpu::SelectAll(gpus, restrict_these));
  std::set<std::string> allowed, in_part;
  bool all = true;
  for (const auto& gpu : gpus) {
    const bool may = (Contains(before, gpu) || Names(added, gpu)) && !Names(removed, gpu);
    if (may) allowed.insert(gpu.uuid);
    if (!may && gpu.mig) in_part.insert(gpu.mig->parent);
    all = all && may;
  }
  if (all) return AllowedGpus();
  // A GPU of which one instance is not allowed no longer stands for its instances.
  for (const auto& uuid : in_part) allowed.erase(uuid);
  if (before)
    for (const auto& uuid : *before)
      if (!gpu::IsInstance(uuid) &&
          std::none_of(gpus.begin(), gpus.end(), [&](const gpu::Gpu& gpu) { return gpu.uuid == uuid; }))
        allowed.insert(uuid);
  return AllowedGpus(std::move(allowed));
}

}  // namespace gpuman::daemon
