// What the rules look at: what was read of a GPU, and whether it could be.
#pragma once

#include <string>

#include "gpu/health_reading.h"

namespace gpuman::health {

using gpu::Recovery;

struct Reading : gpu::HealthReading {
  bool missing = false;  // it was in this machine, and is not among the driver's GPUs
  std::string lost{};    // why it cannot be talked to, as a sentence; empty: it can
  std::string silent{};  // a driver call about it has not come back: for how long, as a sentence
};
// Of a GPU that is missing, lost or silent nothing else means anything.

}  // namespace gpuman::health
