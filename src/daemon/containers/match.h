// What a container was given: who it is, looked up in the table that Kubernetes' plugin told. Pure.
//
// By its own name where that is known. Where it stays unknown its pod says as much as there is: it is held to
// the least that a container of that pod was given and nobody has yet, so that no doubt makes room.
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

// What is known of a container by now.
struct KnownContainer {
  std::optional<ContainerName> name;
  std::optional<PodName> pod;
  bool names_may_come = false;  // it has only just been seen
};

struct Match {
  bool wait = false;                           // for its name
  const api::GivenContainer* given = nullptr;  // null, without `wait`: it was given nothing
};

// `is_held`: a container that has been found already has this.
Match MatchContainer(const std::vector<api::GivenContainer>& table, const KnownContainer& container,
                     const std::function<bool(const api::GivenContainer&)>& is_held);

// The tag of its job: "kube:NAMESPACE:POD:CONTAINER", and where that is too long, or `taken` already, an end
// that is its own.
std::string TagOfContainer(const api::GivenContainer& given, const std::string& id, bool taken);

// The job of what runs in a container. It is root's, since users of a container are not users of the node.
// Fails as JobFromRequest, such as where it was given a GPU that is gone.
base::Result<jobs::Job> JobOfContainer(const api::GivenContainer& given,
                                       const base::ProcessContainer& container, std::string tag,
                                       std::vector<std::string> command, const gpu::Inventory& inventory);

}  // namespace gpuman::daemon
