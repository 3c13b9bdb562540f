// Health as the API shows it. Pure.
#pragma once

#include <map>
#include <string>

#include "api/health_types.h"
#include "daemon/health/monitors.h"
#include "guard/guard.h"

namespace gpuman::daemon {

// The state is "unknown" before the first look at the GPU. The reasons are the faults that nobody has
// acknowledged.
api::HealthView HealthViewOf(const health::Monitor* monitor, const gpu::GpuSample& sample);

// Ordered by index; missing GPUs come last.
api::HealthReport HealthReportOf(const HealthMonitors& monitors,
                                 const std::map<std::string, guard::GpuStatus>& gpus);

}  // namespace gpuman::daemon
