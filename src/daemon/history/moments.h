// What history records of a GPU and of a job at one moment. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "gpu/sample.h"
#include "guard/guard.h"
#include "history/point.h"

namespace gpuman::daemon {

// nullopt: the sample has no figures.
std::optional<history::HistorySample> ReadingOf(const gpu::Sample& sample);

struct JobMoment {
  std::optional<base::Bytes> memory;  // on the GPU where it uses most
  history::JobActivity state = history::JobActivity::kRunning;
  std::vector<const gpu::SlowReadings*> gpus;  // on which it has memory
};
// Utilization, power and temperature are those of its GPUs: the mean, the sum and the highest. They are its
// own only while it runs, so they are unknown otherwise; what one of the GPUs does not report is unknown.
history::HistorySample ReadingOf(const JobMoment& job);

// What the latest samples show of jobs; their states are not filled in. It refers to the statuses.
struct JobMoments {
  std::map<base::JobId, JobMoment> on_gpus;
  JobMoment elsewhere;  // of a job without a process on a GPU
  const JobMoment& Of(base::JobId job) const {
    const auto found = on_gpus.find(job);
    return found == on_gpus.end() ? elsewhere : found->second;
  }
};
JobMoments MomentsOf(const std::map<std::string, guard::GpuStatus>& statuses);

}  // namespace gpuman::daemon
