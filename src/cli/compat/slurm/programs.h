// Runs Slurm's programs: sbatch, squeue, scontrol, sacct, scancel. They are found in PATH and get the
// caller's environment. Each call blocks until the program has ended.
//
// Errors are Slurm's own words; kUnavailable: Slurm is not installed here, or its controller is away.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/paths.h"
#include "base/result.h"
#include "cli/compat/slurm/jobs.h"
#include "cli/compat/slurm/translate.h"

namespace gpuman::cli::slurm {

using Variables = std::map<std::string, std::string>;

// Adds to the job's variables those of the caller's that sbatch itself needs.
Variables WithThoseOfSlurm(Variables job, const Variables& caller);

class SlurmClient {
 public:
  explicit SlurmClient(base::EnvironmentLookup environment) : environment_(std::move(environment)) {}

  base::Result<SbatchAnswer> Submit(const SbatchRequest& job, const Variables& variables) const;
  // This user's jobs, including those that ended a short time ago.
  base::Result<std::vector<SeenJob>> Queue() const;
  // One job, or the tasks of an array. kNotFound: the controller does not know it (any more).
  base::Result<std::vector<SeenJob>> FindNow(const SlurmJobId& name) const;
  // The same; if the controller has forgotten the job, from the accounts, where the cluster keeps some.
  base::Result<std::vector<SeenJob>> Query(const SlurmJobId& name) const;
  base::Result<> Cancel(const SlurmJobId& name) const;
  base::Result<> Signal(const SlurmJobId& name, int signal) const;  // to all processes of the job
  base::Result<> Hold(const SlurmJobId& name) const;
  base::Result<> Release(const SlurmJobId& name) const;
  base::Result<> SetBegin(const SlurmJobId& name, base::Millis from_now) const;

 private:
  base::Result<std::string> Run(const std::string& program, std::vector<std::string> arguments) const;

  base::EnvironmentLookup environment_;
};

}  // namespace gpuman::cli::slurm
