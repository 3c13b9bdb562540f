#include "daemon/history/job_readings.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gpuman::daemon {
namespace {

using history::Metric;

std::int64_t KiBOf(base::Bytes bytes) { return static_cast<std::int64_t>(bytes.count / 1024); }

std::optional<std::int64_t> TenthsOf(std::optional<double> watts) {
  if (!watts) return std::nullopt;
  return std::llround(*watts * 10);
}

history::HistorySample ReadingOf(const gpu::SlowReadings& slow) {
  history::HistorySample reading;
  reading[Metric::kUtilization] = slow.utilization_gpu;
  reading[Metric::kPower] = TenthsOf(slow.power_w);
  reading[Metric::kTemperature] = slow.temperature_c;
  return reading;
}

}  // namespace

std::optional<history::HistorySample> ReadingOf(const gpu::GpuSample& sample) {
  if (sample.state != gpu::GpuReachability::kOk) return std::nullopt;
  history::HistorySample reading = ReadingOf(sample.slow);
  if (sample.memory) reading[Metric::kMemory] = KiBOf(sample.memory->used);
  return reading;
}

history::HistorySample ReadingOf(const JobReading& job) {
  history::HistorySample reading;
  reading.state = job.state;
  if (job.memory) reading[Metric::kMemory] = KiBOf(*job.memory);
  if (job.state != history::JobActivityState::kRunning || job.gpus.empty()) return reading;
  for (const auto metric : {Metric::kUtilization, Metric::kPower, Metric::kTemperature}) {
    std::vector<std::int64_t> values;
    for (const auto* const gpu : job.gpus)
      if (const auto value = ReadingOf(*gpu)[metric]) values.push_back(*value);
    if (values.size() < job.gpus.size()) continue;
    const auto sum = std::accumulate(values.begin(), values.end(), std::int64_t{0});
    if (metric == Metric::kTemperature)
      reading[metric] = *std::max_element(values.begin(), values.end());
    else if (metric == Metric::kPower)
      reading[metric] = sum;
    else
      reading[metric] = sum / static_cast<std::int64_t>(values.size());
  }
  return reading;
}

JobReadings MomentsOf(const std::map<std::string, guard::GpuStatus>& statuses) {
  JobReadings moments;
  for (const auto& [uuid, status] : statuses) {
    const bool has_figures = status.sample.state == gpu::GpuReachability::kOk && status.sample.processes;
    if (status.gpu.split || !has_figures) continue;
    moments.elsewhere.memory = base::Bytes{0};
    for (const auto& [job, usage] : guard::UsageByJob(status.processes)) {
      JobReading& moment = moments.on_gpus[job];
      moment.gpus.push_back(&status.sample.slow);
      if (usage.unknown < usage.processes)
        moment.memory = std::max(moment.memory.value_or(base::Bytes{}), usage.known);
    }
  }
  return moments;
}

}  // namespace gpuman::daemon
