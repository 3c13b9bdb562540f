// Changes of the GPUs that the queue may use. Pure.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/result.h"
#include "gpu/inventory.h"

namespace gpuman::daemon {

// UUIDs. A GPU stands for its instances (MIG) as well, also for future ones. nullopt: every GPU.
using AllowedGpus = std::optional<std::set<std::string>>;

// `before` with the devices that `allow` names, and then without those that `restrict_these` names; a GPU
// stands for all of its instances. `gpus`: of the machine. A GPU of `before` that the machine does not have
// now stays. Errors are those of gpu::SelectAll.
base::Result<AllowedGpus> ChangeAllowed(std::span<const gpu::Gpu> gpus, const AllowedGpus& before,
                                        std::span<const std::string> allow,
                                        std::span<const std::string> restrict_these);

}  // namespace gpuman::daemon
