// Makes the API's view of sharing, and takes changes of its settings from the API. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "api/share_types.h"
#include "base/result.h"
#include "daemon/shims/job_quiescer.h"
#include "gpu/inventory.h"
#include "share/scheduler.h"

namespace gpuman::daemon {

// What the view needs of a job besides the scheduler's snapshot.
struct ShareViewSources {
  std::function<std::string(base::JobId)> tag_of;
  std::function<std::optional<JobQuiescer::Progress>(base::JobId)> progress_of;
};

api::ShareView ShareViewOf(const share::Snapshot& snapshot, const share::SchedulerSettings& settings,
                           const gpu::Inventory& inventory, const ShareViewSources& sources);

// The text of kInvalidArgument names the wrong setting.
base::Result<share::SchedulerSettings> Changed(share::SchedulerSettings settings,
                                               const api::ShareUpdate& update);

}  // namespace gpuman::daemon
