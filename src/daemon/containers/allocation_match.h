// Finds what a container was given in the table that the device plugin for Kubernetes has sent. Pure.
//
// The lookup uses the container's own name where that is known. Where the name stays unknown, the lookup uses
// the pod: of the entries of that pod that no container has yet, the container gets the one with the least
// memory. So a doubt never gives a container more than it was given.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "api/container_types.h"
#include "base/container.h"
#include "daemon/containers/names.h"
#include "gpu/inventory.h"
#include "jobs/job.h"

namespace gpuman::daemon {

// What is known of a container so far.
struct ContainerNameState {
  std::optional<ContainerName> name;
  std::optional<PodName> pod;
  bool names_may_come = false;  // the container was first seen only a moment ago
};

struct AllocationMatch {
  bool wait = false;                                // for the container's name
  const api::ContainerAllocation* given = nullptr;  // null, without `wait`: the container was given nothing
};

// `is_held`: another container that was found before has this entry.
AllocationMatch MatchContainer(const std::vector<api::ContainerAllocation>& table,
                               const ContainerNameState& container,
                               const std::function<bool(const api::ContainerAllocation&)>& is_held);

// The tag of the container's job: "kube:NAMESPACE:POD:CONTAINER". Where that is too long, or already `taken`,
// the tag ends with a part of the container's id.
std::string TagOfContainer(const api::ContainerAllocation& given, const std::string& id, bool taken);

// The job of the processes in a container. Its owner is root, since users of a container are not users of the
// node. Fails as JobFromAttachRequest does, for example where the container was given a GPU that is gone.
base::Result<jobs::Job> JobOfContainer(const api::ContainerAllocation& given,
                                       const base::ProcessContainer& container, std::string tag,
                                       std::vector<std::string> command, const gpu::Inventory& inventory);

}  // namespace gpuman::daemon
