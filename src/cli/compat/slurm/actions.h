// The commands about jobs, for jobs of Slurm: `job show|hold|release`, `cancel`. follow.h follows a job,
// list.h lists jobs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/compat/slurm/follow.h"
#include "cli/session.h"

namespace gpuman::cli::slurm {

base::Result<int> Show(Session& session, const Engine& engine, const JobName& name, bool first);
base::Result<int> Hold(Session& session, const Engine& engine, const JobName& name);
// `from_now`: the job starts no earlier.
base::Result<int> Release(Session& session, const Engine& engine, const JobName& name,
                          std::optional<base::Millis> from_now);
// Refuses a command that only the queue of one machine has, and says what to use in Slurm instead.
base::Result<int> Refuse(const JobName& name, std::string_view command, std::string_view instead);

// The result for each job.
struct Cancelled {
  JobName name;
  std::optional<JobLine> job;  // as it was before; nullopt with an error
  std::optional<base::Error> error;
};
std::vector<Cancelled> Cancel(const Engine& engine, const std::vector<JobName>& names, bool dry_run);

// Removes Slurm's jobs from `refs` and returns them.
std::vector<JobName> TakeJobs(std::vector<std::string>& refs);

}  // namespace gpuman::cli::slurm
