// What history records of a GPU and of a job at one moment. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "gpu/gpu_sample.h"
#include "guard/guard.h"
#include "history/point.h"

namespace gpuman::daemon {

// nullopt: the sample has no figures.
std::optional<history::HistorySample> ReadingOf(const gpu::GpuSample& sample);

struct JobReading {
  std::optional<base::Bytes> memory;  // on the GPU where it uses most
  history::JobActivityState state = history::JobActivityState::kRunning;
  std::vector<const gpu::SlowReadings*> gpus;  // on which it has memory
};
// Utilization, power and temperature are those of its GPUs: the mean, the sum and the highest. They are its
// own only while it runs, so they are unknown otherwise; what one of the GPUs does not report is unknown.
history::HistorySample ReadingOf(const JobReading& job);

// What the latest samples show of jobs; their states are not filled in. It refers to the statuses.
struct JobReadings {
  std::map<base::JobId, JobReading> on_gpus;
  JobReading elsewhere;  // of a job without a process on a GPU
  const JobReading& Of(base::JobId job) const {
    const auto found = on_gpus.find(job);
    return found == on_gpus.end() ? elsewhere : found->second;
  }
};
JobReadings MomentsOf(const std::map<std::string, guard::GpuStatus>& statuses);

}  // namespace gpuman::daemon
