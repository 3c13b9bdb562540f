// The energy that a run's GPUs have used. It is in the job's record, so that it survives the daemon. Pure.
//
// Energy is measured for jobs of the queue that have their GPUs to themselves: the energy of a shared GPU
// cannot be divided among its jobs. While the job is off its GPUs nothing is counted. Where a reading is
// missing, or the driver was loaded anew meanwhile, the run is not measured: no figure is better than a wrong
// one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "guard/guard.h"
#include "jobs/job.h"

namespace gpuman::daemon {

// Millijoules since the driver was loaded, by UUID, all at one time.
using EnergyReadings = std::map<std::string, std::uint64_t>;

// The readings as of `now`. The energy since the latest sample is estimated from the power in that sample.
// GPUs that do not report energy, and GPUs whose sample is too old for an estimate, are left out.
EnergyReadings EnergyAt(const std::map<std::string, guard::GpuStatus>& statuses, base::MonoTime now);

// The job's command was started, or continued, on the GPUs that the job has.
void BeginEnergy(jobs::Job& job, const EnergyReadings& now);
void ContinueEnergy(jobs::Job& job, const EnergyReadings& now);
// The job has left those GPUs.
void PauseEnergy(jobs::Job& job, const EnergyReadings& now);
// Joules of the run that ends now; nullopt: not measured.
std::optional<double> EnergyOf(jobs::Job job, const EnergyReadings& now);

}  // namespace gpuman::daemon
