// What the API shows of sharing, and takes. Pure.
#pragma once

#include <functional>

#include "api/share_types.h"
#include "base/result.h"
#include "gpu/inventory.h"
#include "share/scheduler.h"

namespace gpuman::daemon {

api::ShareView ShareViewOf(const share::Snapshot& snapshot, const share::SchedulerSettings& settings,
                           const gpu::Inventory& inventory,
                           const std::function<std::string(base::JobId)>& tag_of);

// kInvalidArgument with the name of what is wrong.
base::Result<share::SchedulerSettings> Changed(share::SchedulerSettings settings,
                                               const api::ShareUpdate& update);

}  // namespace gpuman::daemon
