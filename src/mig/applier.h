// Carries a plan out through NVML. An edge: calls take up to seconds, and may hang.
//
// All or nothing, as far as the driver lets: when a step fails, those before it are undone in reverse order,
// and the error says so, or what could not be undone.
#pragma once

#include <string>

#include "base/result.h"
#include "driver/nvml.h"
#include "mig/plan.h"

namespace gpuman::mig {

struct Applied {
  Device before;
  Plan plan;
  // The mode changes with the next reset of the GPU; the instances can only be made after it. Why, as a
  // sentence; empty: all is done.
  std::string needs_reset;
};

// Looks at the GPU, plans, and does it. kConflict: processes are in the way; nothing was done.
base::Result<Applied> Apply(const driver::Nvml& nvml, const std::string& uuid, const Wanted& wanted);

}  // namespace gpuman::mig
