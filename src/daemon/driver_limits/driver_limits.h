// Limits of jobs that NVIDIA's driver itself holds, for the cgroups of jobs: decides which limits are to be
// set and taken away. Pure: module.h makes the driver calls.
//
// One call at a time is under way for each cgroup on each GPU, so that the last wish holds in the end. What
// the driver refused is not tried again before something else is wanted.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "gpu/inventory.h"
#include "jobs/job.h"

namespace gpuman::daemon {

// The hard limit of a job on each of its GPUs, by UUID, as far as the driver should hold it. Empty: nothing
// is to be set for this job. `tree`: the directory where cgroups of version 2 begin; empty: there are none.
//
// The driver is not asked for a job whose memory comes and goes by gpuman's own means: it may hold memory
// then that another process made. Clients of MPS have memory through their server, which has a limit for
// each. A limit of as much as the GPU has is none.
std::map<std::string, base::Bytes> DriverLimitsOf(const jobs::Job& job, const gpu::Inventory& inventory,
                                                  std::string_view tree);

// The driver should hold this limit for this cgroup on this GPU.
struct DriverLimitOrder {
  base::JobId job;
  std::string cgroup;                // its directory
  std::string gpu;                   // UUID
  std::optional<base::Bytes> limit;  // nullopt: none
  friend bool operator==(const DriverLimitOrder&, const DriverLimitOrder&) = default;
};

enum class DriverLimitOutcome { kDone, kRefused };

class DriverLimits {
 public:
  using Orders = std::vector<DriverLimitOrder>;

  // What the job should have from now on; none: what was set for it is taken away. The caller carries the
  // orders out, and calls Finish for each.
  Orders Want(base::JobId job, const std::string& cgroup, const std::map<std::string, base::Bytes>& limits);
  // The order that follows it, if something else is wanted by now.
  std::optional<DriverLimitOrder> Finish(const DriverLimitOrder& order, DriverLimitOutcome outcome);

  // Whether the driver holds each limit that was asked for; nullopt: nothing was asked for this job.
  std::optional<bool> Holds(base::JobId job) const;

 private:
  struct Key {
    std::string cgroup, gpu;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    base::JobId job;
    std::optional<base::Bytes> wanted;
    // What the driver was told last; the outer nullopt: nothing, so nobody has to take it away.
    std::optional<std::optional<base::Bytes>> told;
    bool busy = false;     // the order for `told` is under way
    bool refused = false;  // `told` was refused
  };

  std::optional<DriverLimitOrder> Next(const Key& key);

  std::map<Key, Entry> entries_;
};

}  // namespace gpuman::daemon
