// A job that shares its GPUs, as the share controller sees it.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "jobs/job.h"
#include "suspend/mover_options.h"

namespace gpuman::daemon {

struct SharedJob {
  base::JobId id;
  suspend::MoverUser owner;
  double weight = 1;
  int priority = 0;
  bool interactive = false;
  std::vector<std::string> gpus;  // UUIDs that it may use
  bool withdrawn = false;         // the suspend controller has it
  bool oversubscribes = false;    // its allocations wait for no room: they are managed memory
};

// Whether the job may take turns with others. It needs the shim for that. Jobs under MPS share in MPS's own
// way.
inline bool MayShare(const jobs::Job& job) { return job.spec->share && !job.spec->mps && job.spec->preload; }

}  // namespace gpuman::daemon
