// `gpuman submit --to slurm`, `gbatch --to slurm`: hands jobs to sbatch and records them.
#pragma once

#include "base/result.h"
#include "cli/queue/request.h"
#include "cli/session.h"

namespace gpuman::cli::slurm {

// Translates all jobs before it submits the first one. Slurm takes jobs one by one: if it refuses a later
// one, the earlier ones stay in its queue, and the error says so.
base::Result<int> Submit(Session& session, const queue::MadeSubmission& made, queue::Dialect dialect);

}  // namespace gpuman::cli::slurm
