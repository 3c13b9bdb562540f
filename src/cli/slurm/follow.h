// Stays with a job of Slurm's: what it writes, and how it ends. Slurm tells nobody of an end: it is asked,
// more seldom the longer the job runs, and at least every five seconds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/session.h"
#include "cli/slurm/watched.h"

namespace gpuman::cli::slurm {

// All that is known of it: from Slurm, and where that has forgotten it from the record. Writes down an end.
// kNotFound: nobody knows it.
base::Result<std::vector<JobLine>> LookUp(const Engine& engine, const JobName& name);

// Until it has ended, all tasks of an array; prints each, and returns its exit status.
base::Result<int> Wait(Session& session, const Engine& engine, const JobName& name);

// `job attach`, `submit --wait`: shows its output meanwhile. The first SIGINT or SIGTERM goes to the job, the
// second one leaves it. Of an array it is the output of its first task.
base::Result<int> Attach(Session& session, const Engine& engine, const JobName& name);

struct LogOptions {
  bool follow = false;
  std::optional<int> first, last;  // lines
};
base::Result<int> Log(Session& session, const Engine& engine, const JobName& name, const LogOptions& options);

}  // namespace gpuman::cli::slurm
