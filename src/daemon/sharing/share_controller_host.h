// What the share controller needs of the daemon.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "guard/guard.h"
#include "share/events.h"
#include "suspend/mover_options.h"

namespace gpuman::daemon {

struct SharedJob {
  base::JobId id;
  suspend::MoverUser owner;
  double weight = 1;
  int priority = 0;
  std::vector<std::string> gpus;  // UUIDs that it may use
  bool lent = false;              // the suspend controller's
  bool oversubscribes = false;    // its allocations wait for no room: they are managed memory
};

// Called on the loop; may not call back into the share controller but from the
// loop later.
class ShareControllerHost {
 public:
  virtual ~ShareControllerHost() = default;
  // Running jobs of --share that have a ledger.
  virtual std::vector<SharedJob> SharedJobs() = 0;
  virtual const std::map<std::string, guard::GpuStatus>& GpuStatuses() = 0;
  virtual base::Bytes ReserveOf(const std::string& gpu) = 0;
  virtual base::Bytes ContextCostOf(const std::string& gpu) = 0;
  // Of what all jobs together may keep in host memory (suspend.host_memory).
  virtual base::Bytes HostMemoryLeft() = 0;
  virtual void TellSharing(const share::action::Report& report) = 0;
  virtual void Escalate(const share::action::Escalate& order) = 0;
};

}  // namespace gpuman::daemon
