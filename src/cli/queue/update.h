// Options that change a job that waits, or the next run of one: `job update`, `job redo`, `gjob update|redo`.
#pragma once

#include <functional>
#include <vector>

#include "api/queue_types.h"
#include "cli/queue/options.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

struct UpdateSettings {
  api::JobUpdate update;
  // What is changed within a part that is replaced as a whole: applied to what the job has now.
  std::vector<std::function<void(api::GpuRequest&)>> gpus;
  std::vector<std::function<void(api::Retries&)>> retries;
  bool cascade = false;
  bool Empty() const;
};

enum class ForWhat { kUpdate, kRedo };
Options UpdateOptions(UpdateSettings& settings, Flavour flavour, ForWhat what, base::WallTime now);

// What the daemon gets for a job that is as `job`.
api::JobUpdate UpdateOf(const UpdateSettings& settings, const api::JobView& job);

}  // namespace gpuman::cli::queue
