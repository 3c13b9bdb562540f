// Carries out a plan through NVML. Calls of the driver take up to seconds, and may hang.
//
// Apply does all or nothing, as far as the driver permits. When a step fails, Apply undoes the steps before
// it in reverse order. The error says so, or says which steps could not be undone.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "base/result.h"
#include "driver/nvml.h"
#include "mig/plan.h"

namespace gpuman::mig {

struct ApplyResult {
  GpuMigState before;
  Plan plan;
  // Why the mode changes only with the next reset of the GPU, as a sentence; the instances can be made after
  // that. Empty: everything is done.
  std::string needs_reset;
};

// Reads the GPU, makes a plan, and carries it out. kConflict: processes are in the way; Apply changed
// nothing.
// `own`: gpuman's own processes.
base::Result<ApplyResult> Apply(const driver::Nvml& nvml, const std::string& uuid, const WantedLayout& wanted,
                                const std::set<pid_t>& own);

}  // namespace gpuman::mig
