// Who has a GPU at one moment, and with what weight. Pure.
#pragma once

#include <optional>
#include <vector>

#include "energy/split.h"

namespace gpuman::daemon {

// A job that may use the GPU now, or the processes there that belong to no job.
struct GpuOccupant {
  base::JobId job;
  bool moves = false;              // its memory comes or leaves, and it does not run
  bool idle = false;               // it makes no call
  bool process = false;            // it has a process there
  std::optional<unsigned> work{};  // how much these worked, beside the others'; nullopt: not known
};

// In the order of jobs. If a running job has a process on the GPU, running jobs without one do not count.
// Jobs count by their work; if the work of one of them is not known, all that are not idle count alike.
energy::Holders HoldersOf(std::vector<GpuOccupant> present);

}  // namespace gpuman::daemon
