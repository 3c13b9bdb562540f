// What GPUs are split into, as the API shows it. Pure.
#pragma once

#include <vector>

#include "api/mig_types.h"
#include "daemon/mig/orders.h"

namespace gpuman::daemon {

// `wanted`: null where nothing was asked for.
api::MigGpu MigGpuOf(const MigLook& look, const mig::Wanted* wanted);
api::MigChanges MigChangesOf(const std::vector<MigOutcome>& outcomes);
// Why nothing was done, for one of the GPUs; nullopt: something was, or there was nothing in the way of it.
std::optional<base::Error> WhyNothing(const std::vector<MigOutcome>& outcomes);
// kInvalidArgument says which entry is wrong, kNotFound which GPU there is not.
base::Result<std::vector<MigOrder>> OrdersOf(const api::MigRequest& request, const gpu::Inventory& inventory);

}  // namespace gpuman::daemon
