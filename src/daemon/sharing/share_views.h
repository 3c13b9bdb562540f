// Makes the API's view of sharing, and takes changes of its settings from the API. Pure.
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

// The text of kInvalidArgument names the wrong setting.
base::Result<share::SchedulerSettings> Changed(share::SchedulerSettings settings,
                                               const api::ShareUpdate& update);

}  // namespace gpuman::daemon
