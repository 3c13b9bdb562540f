// What GPUs are split into, as the API shows it. Pure.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <vector>

#include "api/mig_types.h"
#include "daemon/mig/orders.h"
#include "jobs/job.h"

namespace gpuman::daemon {

// gpuman's own processes on GPUs. Those that have nothing to do leave before anything changes.
struct OwnProcesses {
  std::set<pid_t> all, idle;
  std::function<const jobs::Job*(pid_t)> job_of{};  // of all processes; nullptr: it is of none
};

// `wanted`: null where nothing was asked for.
api::MigGpu MigGpuOf(const MigReading& reading, const mig::Wanted* wanted, const gpu::Inventory& inventory,
                     const OwnProcesses& own);
api::MigChanges MigChangesOf(const std::vector<MigOutcome>& outcomes, const OwnProcesses& own);
// Why nothing was done, for one of the GPUs; nullopt: something was, or there was nothing in the way of it.
std::optional<base::Error> WhyNothing(const std::vector<MigOutcome>& outcomes);
// How many instances each GPU that was changed has now; those that wait for a reset are left out.
struct DividedGpu {
  std::string uuid;
  bool split = false;
  std::size_t instances = 0;
};
std::vector<DividedGpu> DivisionsAfter(const std::vector<MigOutcome>& outcomes);
bool IsDivided(const std::vector<DividedGpu>& divisions, const gpu::Inventory& inventory);

// kInvalidArgument says which entry is wrong, kNotFound which GPU there is not.
base::Result<std::vector<MigOrder>> OrdersOf(const api::MigRequest& request, const gpu::Inventory& inventory);

}  // namespace gpuman::daemon
