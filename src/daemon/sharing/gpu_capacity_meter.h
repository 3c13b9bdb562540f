// How much memory of each GPU the jobs that share it can have: not the guard's reserve, nor what the driver,
// other processes and the movers' contexts take.
//
// Lives on the event loop; not thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "share/events.h"
#include "share/settings.h"
#include "suspend/mover_options.h"

namespace gpuman::daemon {

class Core;
class ShimChannel;
class SuspendController;

class GpuCapacityMeter {
 public:
  // All must outlive this object.
  GpuCapacityMeter(Core& core, ShimChannel& shims, SuspendController& suspension)
      : core_(core), shims_(shims), suspension_(suspension) {}

  struct Tenants {
    std::map<std::string, std::set<suspend::MoverUser>> users;  // by GPU
    std::map<std::string, std::size_t> jobs;                    // by GPU
    std::set<base::JobId> taking_part;  // their memory does not count as that of other processes
  };
  // Reads the newest samples. Returns the GPUs whose capacity has changed.
  std::vector<share::event::CapacityChanged> Update(const Tenants& tenants,
                                                    const share::SchedulerSettings& settings);
  // Forgets what it has returned: the next Update returns every GPU.
  void Forget() { capacities_.clear(); }
  // As Update returned them last.
  const std::map<std::string, base::Bytes>& capacities() const { return capacities_; }

 private:
  base::Bytes DriverOf(const std::string& gpu, base::Bytes shown);

  Core& core_;
  ShimChannel& shims_;
  SuspendController& suspension_;
  std::map<std::string, base::Bytes> capacities_;
  std::map<std::string, std::deque<base::Bytes>> driver_;  // used memory of no process, latest figures
};

}  // namespace gpuman::daemon
