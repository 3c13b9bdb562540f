// This process's side of checkpoints that other processes request.
#pragma once

#include "sim/cuda/driver.h"

namespace gpuman::sim::cuda {

// Starts the thread that answers the mailbox of this process's slot (sim/state/layout.h).
void StartCheckpointService(Driver& driver);

}  // namespace gpuman::sim::cuda
