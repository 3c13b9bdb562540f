// Follows a job of Slurm: what it writes, and how it ends. Slurm does not report an end: gpuman asks, less
// often the longer the job runs, and at least every five seconds.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_context.h"
#include "cli/compat/slurm/slurm_job_watch.h"
#include "cli/queue/external_queue.h"

namespace gpuman::cli::slurm {

// All that is known of a job: from Slurm, and from the record where Slurm has forgotten it. Records an end.
// kNotFound: neither knows the job.
base::Result<std::vector<SlurmJobView>> LookUp(const SlurmContext& engine, const SlurmJobId& name);

// A sentence for each, or its JSON.
void PrintLines(CommandContext& session, const std::vector<SlurmJobView>& lines);

// Waits until the job, or every task of an array, has ended; prints each task, and returns the exit status.
base::Result<int> Wait(CommandContext& session, const SlurmContext& engine, const SlurmJobId& name);

// `job attach`, `submit --wait`: shows the output until the end. The first SIGINT or SIGTERM goes to the job,
// the second one leaves the job. For an array it shows the output of the first task.
base::Result<int> Attach(CommandContext& session, const SlurmContext& engine, const SlurmJobId& name);

base::Result<int> Log(CommandContext& session, const SlurmContext& engine, const SlurmJobId& name,
                      const queue::LogSettings& settings);

}  // namespace gpuman::cli::slurm
