// How often each GPU is sampled. Pure.
//
// At rest the period is 100 ms, which bounds the delay of the answer to a jump out of rest. The period is 5
// ms while memory that a limit watches grows fast enough to reach the limit soon, so that the answer comes
// within 20 ms also on a loaded machine. In between, the period is in proportion to the time until the growth
// reaches the limit. Without growth the period returns to rest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "guard/policy.h"

namespace gpuman::guard {

struct CadenceSettings {
  base::Millis rest{100};
  base::Millis fastest{5};
  base::Millis hold{1500};     // stays fast this long after the last growth
  base::Millis ending{20};     // while a job or process is being ended and its memory is awaited
  base::Millis horizon{2000};  // growth that reaches a limit within this time has the fastest period
};

// One sum that is watched: a job's usage on a GPU against its limit, the usage of a user's unmanaged
// processes against their ceiling, or the memory in use against the GPU's reserve.
struct WatchedUsage {
  std::string key;  // stable over time: "job 7", "user 1000", "reserve"
  base::Bytes used;
  base::Bytes ceiling;
};

struct UsageGrowthState {
  base::Bytes used;
  base::MonoTime seen_at{};
  base::MonoTime grew_at{};
  bool growing = false;  // has grown within `hold`
  double rate = 0;       // bytes a second, the fastest growth since it last was quiet
  base::Bytes step;      // the largest single growth since it last was quiet
};

struct CadenceState {
  struct PerGpu {
    base::Millis period{0};  // the current period
    std::map<std::string, UsageGrowthState> watched;
  };
  std::map<std::string, PerGpu> gpus;
};

// All sums that are watched on one GPU.
std::vector<WatchedUsage> WatchedOn(const GpuSnapshot& gpu, const std::vector<JobSnapshot>& jobs,
                                    const PolicySettings& settings);

// The period for this GPU from now on; call it with every sample. Samples without a change may be left out if
// one comes about once a second.
base::Millis NextPeriod(const std::string& gpu, const std::vector<WatchedUsage>& watched,
                        bool something_is_ending, base::MonoTime now, const CadenceSettings& settings,
                        CadenceState& state);

}  // namespace gpuman::guard
