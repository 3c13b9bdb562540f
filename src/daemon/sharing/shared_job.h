// A job that shares its GPUs, as the share controller sees it.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "jobs/job.h"
#include "share/tenant_options.h"
#include "spec/job_options.h"
#include "suspend/mover_options.h"

namespace gpuman::daemon {

struct SharedJob {
  base::JobId id;
  suspend::MoverUser owner;
  share::TenantOptions options;
  std::vector<std::string> gpus;  // UUIDs that it may use
  bool withdrawn = false;         // the suspend controller has it
  bool oversubscribes = false;    // its allocations wait for no room: they are managed memory
};

inline share::TenantOptions TenantOptionsOf(const spec::RunOptions& asked) {
  share::TenantOptions options{.weight = asked.weight,
                               .priority = asked.priority,
                               .interactive = asked.interactive,
                               .latency = asked.latency};
  if (asked.compute) options.compute = {asked.compute->percent / 100.0, asked.compute->may_exceed};
  return options;
}

// Whether the job may take turns with others. It needs the shim for that. Jobs under MPS share in MPS's own
// way.
inline bool MayShare(const jobs::Job& job) { return job.spec->share && !job.spec->mps && job.spec->preload; }

}  // namespace gpuman::daemon
