// How often each GPU is looked at. Pure.
//
// At rest every 100 ms, which bounds the answer to a jump out of rest; every 5 ms while memory that a limit
// watches grows fast enough to reach it soon, so that passing it is answered within 20 ms also on a loaded
// machine; in between in proportion to the time that the growth seen would need. Quiet brings it back.
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
  base::Millis ending{20};     // while the memory of something that is being ended is waited for
  base::Millis horizon{2000};  // growth that reaches a limit within this time is looked at fastest
};

// One watched sum: a job's usage on a GPU against its limit, a user's unmanaged processes against theirs, or
// the memory in use against the GPU's reserve.
struct Watched {
  std::string key;  // stable over time: "job 7", "user 1000", "reserve"
  base::Bytes used;
  base::Bytes ceiling;
};

struct WatchedState {
  base::Bytes used;
  base::MonoTime seen_at{};
  base::MonoTime grew_at{};
  bool growing = false;  // within `hold`
  double rate = 0;       // bytes a second, the fastest growth since quiet
  base::Bytes step;      // the largest single growth since quiet
};

struct CadenceState {
  struct PerGpu {
    base::Millis period{0};  // in force
    std::map<std::string, WatchedState> watched;
  };
  std::map<std::string, PerGpu> gpus;
};

// Everything that is watched on one GPU.
std::vector<Watched> WatchedOn(const GpuSnapshot& gpu, const std::vector<JobSnapshot>& jobs,
                               const PolicySettings& settings);

// The period for this GPU from now on; to be called with every sample. Samples that saw nothing new need not
// be shown to it, as long as one comes about once a second.
base::Millis NextPeriod(const std::string& gpu, const std::vector<Watched>& watched, bool something_is_ending,
                        base::MonoTime now, const CadenceSettings& settings, CadenceState& state);

}  // namespace gpuman::guard
