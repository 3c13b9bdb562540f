// Options that change a job, or its next run: `update`, `restart`, `job update`, `job redo`, `gjob
// update|redo`.
#pragma once

#include <functional>
#include <vector>

#include "api/queue_types.h"
#include "cli/command.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

struct JobUpdateSettings {
  api::JobUpdate update{{}, api::JobQueueUpdate{}};
  SubmitSettings submission;  // values of options of `submit`; `update` gets them as well
  // Changes within parts that the daemon replaces as a whole; UpdateOf applies them to the job's present
  // values.
  std::vector<std::function<void(spec::GpuRequest&)>> gpus;
  std::vector<std::function<void(spec::Retries&)>> retries;
  std::optional<spec::NamedDependencies> depends;  // in place of those that it has
  bool cascade = false;

  api::JobQueueUpdate& queue() { return *update.queue; }
  bool Empty() const;
};

// The limits of memory, and all options that change any job, also while it runs.
Options LimitOptions(JobUpdateSettings& settings);
Options RunningOptions(JobUpdateSettings& settings);

enum class UpdatePurpose { kUpdate, kRedo };
Options UpdateOptions(JobUpdateSettings& settings, const CommandDialect& dialect, UpdatePurpose what,
                      base::WallTime now);

// The update that the daemon gets for `job`, given its present values.
api::JobUpdate UpdateOf(const JobUpdateSettings& settings, const api::JobView& job);

}  // namespace gpuman::cli::queue
