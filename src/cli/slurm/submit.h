// `gpuman submit --to slurm`, `gbatch --to slurm`: hands jobs to sbatch and writes down what was handed over.
#pragma once

#include "base/result.h"
#include "cli/queue/request.h"
#include "cli/session.h"

namespace gpuman::cli::slurm {

// All jobs are translated before the first is submitted; Slurm takes them one by one, so that a refusal of a
// later one leaves those before it in the queue: it says so.
base::Result<int> Submit(Session& session, const queue::MadeSubmission& made, queue::Flavour flavour);

}  // namespace gpuman::cli::slurm
