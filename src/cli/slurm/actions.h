// The commands about jobs, for those of Slurm: `job show|hold|release`, `cancel`. Following one is in
// follow.h, the list in list.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/session.h"
#include "cli/slurm/follow.h"

namespace gpuman::cli::slurm {

base::Result<int> Show(Session& session, const Engine& engine, const JobName& name, bool first);
base::Result<int> Hold(Session& session, const Engine& engine, const JobName& name);
// `from_now`: it starts no earlier.
base::Result<int> Release(Session& session, const Engine& engine, const JobName& name,
                          std::optional<base::Millis> from_now);
// Of what only the queue of one machine does: how it is done in Slurm.
base::Result<int> Refuse(const JobName& name, std::string_view command, std::string_view instead);

// What became of each.
struct Cancelled {
  JobName name;
  std::optional<JobLine> job;  // before; none with an error
  std::optional<base::Error> error;
};
std::vector<Cancelled> Cancel(const Engine& engine, const std::vector<JobName>& names, bool dry_run);

// Those of `refs` that are Slurm's; they are taken out of it.
std::vector<JobName> TakeJobs(std::vector<std::string>& refs);

}  // namespace gpuman::cli::slurm
