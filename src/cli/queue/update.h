// Options that change a waiting job, or the next run of a job: `job update`, `job redo`, `gjob update|redo`.
#pragma once

#include <functional>
#include <vector>

#include "api/queue_types.h"
#include "cli/command.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

struct UpdateSettings {
  api::UpdateRequest job;
  api::QueueUpdate queue;
  SubmitSettings submission;  // values of options of `submit`; `queue` gets them as well
  // Changes within parts that the daemon replaces as a whole; UpdateOf applies them to the job's present
  // values.
  std::vector<std::function<void(api::GpuRequest&)>> gpus;
  std::vector<std::function<void(spec::Retries&)>> retries;
  bool cascade = false;
  bool Empty() const;
};

enum class ForWhat { kUpdate, kRedo };
Options UpdateOptions(UpdateSettings& settings, Flavour flavour, ForWhat what, base::WallTime now);

// The update that the daemon gets for `job`, given its present values.
api::JobUpdate UpdateOf(const UpdateSettings& settings, const api::JobView& job);

}  // namespace gpuman::cli::queue
