// The parts of a job's spec by which the queue decides, under their names in the queue.
#pragma once

#include "spec/job_spec.h"

namespace gpuman::queue {

using base::JobId;
using base::Millis;
using base::WallTime;
using spec::Dependencies;
using spec::Dependency;
using spec::DependencyKind;
using spec::DependencyKindFromString;
using spec::DependencyMode;
using spec::DependencyModeFromString;
using spec::GpuRequest;
using spec::JobSpec;
using spec::kUsualPriority;

// Which task of which array a job is. The array's id is that of its first task.
struct ArrayTask {
  JobId array;
  std::int64_t task = 0;
  int limit = 0;  // at most so many tasks run at a time; 0: any number
  friend bool operator==(const ArrayTask&, const ArrayTask&) = default;
};

}  // namespace gpuman::queue
