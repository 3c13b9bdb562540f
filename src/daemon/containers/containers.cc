#include "daemon/containers/containers.h"

#include <utility>

#include "daemon/containers/allocation_match.h"
#include "daemon/containers/names.h"

namespace gpuman::daemon {
namespace {

// Kubelet writes down a container's name when the container's start has returned: long before the container
// has loaded CUDA.
constexpr std::chrono::seconds kNamesTake{5};
constexpr std::size_t kMaxRemembered = 4096;  // beyond this the daemon forgets all and looks again

}  // namespace

void Containers::SetTable(std::vector<api::ContainerAllocation> table) {
  if (std::exchange(has_table_, true) && table == table_) return;
  table_ = std::move(table);
  strangers_.clear();
  std::erase_if(seen_, [](const auto& entry) { return entry.second.stage == CreationStage::kNobody; });
}

bool Containers::IsComing(base::ProcessId process, base::MonoTime now) {
  if (strangers_.contains(process)) return false;
  const auto container = callbacks_.container_of(process.pid);
  // A container without a pod may belong to any pod.
  if (container && !has_table_) return !container->group.pod_uid.empty();
  const auto stranger = [&] {
    if (strangers_.size() >= kMaxRemembered) strangers_.clear();
    strangers_.insert(process);
    return false;
  };
  if (!container) return stranger();
  if (seen_.size() >= kMaxRemembered) seen_.clear();
  SeenContainer& seen =
      seen_.try_emplace(container->group.id, SeenContainer{now, CreationStage::kNew}).first->second;
  if (seen.stage == CreationStage::kNobody) return stranger();
  if (seen.stage == CreationStage::kBeingMade) return true;
  const ContainerNameState known{FindContainerName(logs_, container->group.id),
                                 FindPodName(logs_, container->group.pod_uid), now - seen.since < kNamesTake};
  const AllocationMatch match = MatchContainer(table_, known, callbacks_.is_held);
  waits_ = waits_ || match.wait;
  if (match.wait) return true;
  seen.stage = match.given ? CreationStage::kBeingMade : CreationStage::kNobody;
  if (!match.given) return stranger();
  const auto given = *match.given;
  callbacks_.hold(*container, given, process.pid);
  return true;
}

void Containers::Drop(const std::string& id) {
  const auto seen = seen_.find(id);
  if (seen != seen_.end()) seen->second.stage = CreationStage::kNobody;
}

}  // namespace gpuman::daemon
