// Health as the API shows it. Pure.
#pragma once

#include <map>
#include <string>

#include "api/health_types.h"
#include "daemon/health/monitors.h"
#include "guard/guard.h"

namespace gpuman::daemon {

// unknown before the GPU was looked at. The reasons are of faults that nobody has acknowledged.
api::HealthView HealthViewOf(const health::Monitor* monitor, const gpu::Sample& sample);

// By index, those that are missing last.
api::HealthReport HealthReportOf(const HealthMonitors& monitors,
                                 const std::map<std::string, guard::GpuStatus>& gpus);

}  // namespace gpuman::daemon
