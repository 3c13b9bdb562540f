#include "daemon/core/energy.h"

namespace gpuman::daemon {
namespace {

constexpr std::chrono::seconds kOldest{10};
// Millijoules. An estimate can be too high by this much: the power was one kilowatt when it was read, and
// ended right afterwards, kOldest ago. If a reading is below the one before by more than this, the driver's
// counter has begun anew.
constexpr std::uint64_t kReckonedTooHigh = 10'000'000;

void Take(jobs::Job& job, const EnergyReadings& now) {
  job.energy_before.clear();
  for (const auto& gpu : job.gpus) {
    const auto reading = now.find(gpu);
    if (reading == now.end()) return job.energy_used.reset();
    job.energy_before[gpu] = reading->second;
  }
}

}  // namespace

EnergyReadings EnergyAt(const std::map<std::string, guard::GpuStatus>& statuses, base::MonoTime now) {
  EnergyReadings readings;
  for (const auto& [uuid, status] : statuses) {
    const auto& slow = status.sample.slow;
    if (status.sample.state != gpu::GpuState::kOk || !slow.energy) continue;
    const std::chrono::duration<double> since = now - slow.energy->at;
    if (since > kOldest) continue;
    const double reckoned = std::max(since.count(), 0.0) * slow.power_w.value_or(0) * 1000;
    readings[uuid] = slow.energy->millijoules + static_cast<std::uint64_t>(std::max(reckoned, 0.0));
  }
  return readings;
}

void BeginEnergy(jobs::Job& job, const EnergyReadings& now) {
  job.energy_used.reset();
  job.energy_before.clear();
  if (!job.queued || job.spec->share || job.gpus.empty()) return;
  job.energy_used = 0;
  Take(job, now);
}

void ContinueEnergy(jobs::Job& job, const EnergyReadings& now) {
  if (job.energy_used) Take(job, now);
}

void PauseEnergy(jobs::Job& job, const EnergyReadings& now) {
  for (const auto& [gpu, before] : std::exchange(job.energy_before, {})) {
    const auto reading = now.find(gpu);
    if (reading == now.end() || reading->second + kReckonedTooHigh < before || !job.energy_used) {
      job.energy_used.reset();
      return;
    }
    *job.energy_used += std::max(reading->second, before) - before;
  }
}

std::optional<double> EnergyOf(jobs::Job job, const EnergyReadings& now) {
  PauseEnergy(job, now);
  if (!job.energy_used) return std::nullopt;
  return static_cast<double>(*job.energy_used) / 1000;
}

}  // namespace gpuman::daemon
