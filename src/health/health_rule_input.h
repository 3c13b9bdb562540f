// The input of the rules: the values that were read of a GPU, and whether the GPU could be read.
#pragma once

#include <string>

#include "gpu/health_reading.h"

namespace gpuman::health {

using gpu::Recovery;

struct HealthRuleInput : gpu::HealthReading {
  bool missing = false;  // the GPU was in this machine before, and the driver does not list it now
  std::string lost{};    // why the GPU cannot be reached, as a sentence; empty: it can
  std::string silent{};  // how long a driver call about it has not returned, as a sentence; empty: none
};
// If a GPU is missing, lost or silent, the other fields have no meaning.

}  // namespace gpuman::health
