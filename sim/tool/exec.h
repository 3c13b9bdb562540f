// `gpuman-sim exec`: runs a command and its children on a simulated machine.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/state/state.h"

namespace gpuman::sim {

struct ExecOptions {
  CreateOptions machine;                   // its bus speeds come from the two texts below
  std::string bus_to_device, bus_to_host;  // as ParseBusSpeeds reads them
  bool virtual_memory = true;  // false: GPUs without the virtual memory calls, whatever the profile says
  // Empty: Exec makes a machine, which ends with the command and all processes that the command left behind.
  // A directory: Exec uses the machine in it, or makes a machine there, which stays.
  std::string directory;
  std::vector<std::string> command;
};

// The exit status of the command, 128+N when signal N ended it, 126 and 127 as a shell's.
base::Result<int> Exec(const ExecOptions& options);

}  // namespace gpuman::sim
