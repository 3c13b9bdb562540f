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

// gpuman's own processes on GPUs. The idle ones leave before a GPU is changed.
struct OwnProcesses {
  std::set<pid_t> all, idle;
  std::function<const jobs::Job*(pid_t)> job_of{};  // for any process; nullptr: it is of no job
};

// `wanted`: null where nobody has asked for a division.
api::MigGpu MigGpuOf(const MigReading& reading, const mig::WantedLayout* wanted,
                     const gpu::Inventory& inventory, const OwnProcesses& own);
api::MigChanges MigChangesOf(const std::vector<MigOutcome>& outcomes, const OwnProcesses& own);
// The reason why nothing was done, for one of the GPUs; nullopt: something was done, or nothing stood in the
// way.
std::optional<base::Error> WhyNothing(const std::vector<MigOutcome>& outcomes);
// The number of instances of a GPU that was changed. GPUs that wait for a reset are left out.
struct ExpectedDivision {
  std::string uuid;
  bool split = false;
  std::size_t instances = 0;
};
std::vector<ExpectedDivision> DivisionsAfter(const std::vector<MigOutcome>& outcomes);
bool IsDivided(const std::vector<ExpectedDivision>& divisions, const gpu::Inventory& inventory);

// The text of kInvalidArgument names the wrong entry, the text of kNotFound the missing GPU.
base::Result<std::vector<MigOrder>> OrdersOf(const api::MigRequest& request, const gpu::Inventory& inventory);

}  // namespace gpuman::daemon
