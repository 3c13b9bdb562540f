// A job that shares its GPUs, as the share controller sees it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "jobs/job.h"
#include "share/events.h"
#include "suspend/mover_options.h"

namespace gpuman::daemon {

struct SharedJob {
  base::JobId id;
  suspend::MoverUser owner;
  double weight = 1;
  int priority = 0;
  bool interactive = false;
  std::optional<share::ComputeShare> compute;
  bool latency = false;
  std::vector<std::string> gpus;  // UUIDs that it may use
  bool withdrawn = false;         // the suspend controller has it
  bool oversubscribes = false;    // its allocations wait for no room: they are managed memory
};

inline std::optional<share::ComputeShare> ComputeShareOf(const jobs::Job& job) {
  const auto& asked = job.spec->compute;
  if (!asked) return std::nullopt;
  return share::ComputeShare{asked->percent / 100.0, asked->may_exceed};
}

// Whether the job may take turns with others. It needs the shim for that. Jobs under MPS share in MPS's own
// way.
inline bool MayShare(const jobs::Job& job) { return job.spec->share && !job.spec->mps && job.spec->preload; }

}  // namespace gpuman::daemon
