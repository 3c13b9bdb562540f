// For tests: the jobs of an index as a list.
#pragma once

#include <vector>

#include "jobs/job_index.h"

namespace gpuman::jobs {

// All jobs of the index, by id.
inline std::vector<const Job*> AllJobs(const JobIndex& index) {
  std::vector<const Job*> jobs;
  for (const Job* job = index.After({}); job != nullptr; job = index.After(job->id)) jobs.push_back(job);
  return jobs;
}

}  // namespace gpuman::jobs
