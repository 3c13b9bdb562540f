// Carries out a plan through NVML. Calls take up to seconds, and may hang.
//
// All or nothing, as far as the driver permits. When a step fails, the steps before it are undone in reverse
// order; the error says so, or says what could not be undone.
#pragma once

#include <string>

#include "base/result.h"
#include "driver/nvml.h"
#include "mig/plan.h"

namespace gpuman::mig {

struct Applied {
  Device before;
  Plan plan;
  // Why the mode changes only with the next reset of the GPU, as a sentence; the instances can be made after
  // that. Empty: everything is done.
  std::string needs_reset;
};

// Reads the GPU, plans, and carries the plan out. kConflict: processes are in the way; nothing was done.
base::Result<Applied> Apply(const driver::Nvml& nvml, const std::string& uuid, const Wanted& wanted);

}  // namespace gpuman::mig
