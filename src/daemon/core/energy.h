// What a run's GPUs have used, in the job's record, so that it survives the daemon. Pure.
//
// Measured for jobs of the queue that have their GPUs to themselves; of a GPU that is shared nobody can tell
// whose work it was. While the job is off its GPUs nothing is counted. Where a reading is missing, or the
// driver was loaded anew meanwhile, the run is not measured: no figure is better than a wrong one.
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

// The readings as of `now`: what was used since the latest sample is reckoned from the power it saw. GPUs
// that do not tell, and samples too old to be reckoned from, are left out.
EnergyReadings EnergyAt(const std::map<std::string, guard::GpuStatus>& statuses, base::MonoTime now);

// Its command was started, or went on, on the GPUs that the job has.
void BeginEnergy(jobs::Job& job, const EnergyReadings& now);
void ContinueEnergy(jobs::Job& job, const EnergyReadings& now);
// It has left those GPUs.
void SettleEnergy(jobs::Job& job, const EnergyReadings& now);
// Joules of the run that ends now; nullopt: not measured.
std::optional<double> EnergyOf(jobs::Job job, const EnergyReadings& now);

}  // namespace gpuman::daemon
