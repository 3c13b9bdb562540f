// Chooses the GPU memory of jobs that ask for `--memory auto`, by the policy of queue/memory_estimate.h.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "jobs/accounting.h"
#include "jobs/job.h"
#include "queue/past_runs.h"
#include "queue/snapshot_updater.h"

namespace gpuman::daemon {

// What the choice rests on.
struct MemoryChoiceContext {
  const queue::PastRuns& past;
  const queue::SnapshotUpdater& updater;  // knows the GPUs
};

// What the run has shown of the memory that such runs need; nullopt: nothing.
std::optional<queue::PastRun> PastRunOf(const jobs::RunAccount& run);

// Sets `memory` of a spec with `memory_auto` by the past runs of the job's user and name; absent: no limit.
// Returns the note for the user who submits the job. `job`: has owner, tag and command; its own spec is not
// looked at.
std::string ChooseMemory(const jobs::Job& job, const MemoryChoiceContext& grounds, spec::JobSpec& spec);

// The same for a waiting job whose turn has come: since it was submitted, more runs may have become known.
// nullopt: the size stays, also where it would only be a little smaller.
struct MemoryChoice {
  spec::JobSpec spec;
  std::string note;
};
std::optional<MemoryChoice> ChooseMemoryAnew(const jobs::Job& job, const MemoryChoiceContext& grounds);

// What the job gets for one more run, if it asked for `--memory auto`, its run has ended at that time, and
// the cause is that its limit refused it memory or that the guard held its limit.
std::optional<jobs::MoreMemory> MoreMemoryAfter(const jobs::Job& job, base::WallTime ended,
                                                const queue::SnapshotUpdater& updater);

}  // namespace gpuman::daemon
