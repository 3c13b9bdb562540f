// The parts of a job's spec by which the queue decides, under their names in the queue.
#pragma once

#include "spec/job_spec.h"

namespace gpuman::queue {

using base::JobId;
using base::Millis;
using base::WallTime;
using spec::ArrayTask;
using spec::Dependencies;
using spec::Dependency;
using spec::DependencyKind;
using spec::DependencyKindFromString;
using spec::DependencyMode;
using spec::GpuRequest;
using spec::JobSpec;
using spec::kUsualPriority;

}  // namespace gpuman::queue
