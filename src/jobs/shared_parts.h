// Makes the parts that many jobs have in common one object for all of them (shared.h). A daemon keeps 100,000
// jobs, and those of one user mostly have the same environment, limits and options.
//
// Not thread-safe. Keeps no part alive.
#pragma once

#include <functional>
#include <string>

#include "jobs/environment.h"
#include "jobs/job.h"
#include "jobs/shared.h"

namespace gpuman::jobs {

class SharedParts {
 public:
  // Replaces each part of `job` by the equal one that another job has.
  void Share(Job& job) {
    job.environment = environments_.Share(job.environment);
    job.resource_limits = limits_.Share(job.resource_limits);
    job.spec = specs_.Share(job.spec);
    job.owner = owners_.Share(job.owner);
    job.directory = directories_.Share(job.directory);
  }

 private:
  ValueDeduplicator<Variables, VariablesHash> environments_;
  ValueDeduplicator<ResourceLimits, ResourceLimitsHash> limits_;
  ValueDeduplicator<spec::JobSpec, JobSpecHash> specs_;
  ValueDeduplicator<JobOwner, OwnerHash> owners_;
  ValueDeduplicator<std::string, std::hash<std::string>> directories_;
};

}  // namespace gpuman::jobs
