// How often each GPU is looked at. Pure.
//
// At rest every 100 ms, which bounds the answer to a jump out of rest; every 5 ms while memory that a limit
// watches is growing towards it, so that passing it is answered within 20 ms also on a loaded machine; in
// between by the time the growth seen would need to reach the nearest limit. Quiet brings it back.
#pragma once

#include <map>
#include <optional>
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
  base::Millis horizon{2000};  // growth that needs longer than this to a limit is looked at less often
};

// One watched sum: a job's usage on a GPU against its limits, an unmanaged user's, or the GPU's free memory
// against the reserve.
struct Watched {
  std::string key;  // stable over time: "job 7", "user 1000", "reserve"
  base::Bytes used;
  base::Bytes ceiling;  // the nearest one above `used`; at or below it: passed already
};

struct WatchedState {
  base::Bytes used;
  base::MonoTime at{};
  double rate = 0;   // bytes a second while growing, decaying peak
  base::Bytes step;  // largest single growth since quiet
  base::MonoTime grew_at{};
  bool grew = false;
};

struct CadenceState {
  std::map<std::string, std::map<std::string, WatchedState>> gpus;  // by GPU, by key
};

// Everything that is watched on one GPU.
std::vector<Watched> WatchedOn(const GpuSnapshot& gpu, const std::vector<JobSnapshot>& jobs,
                               const Settings& settings);

// The period for this GPU from now on. To be called with every sample.
base::Millis NextPeriod(const std::string& gpu, const std::vector<Watched>& watched, bool something_is_ending,
                        base::MonoTime now, const CadenceSettings& settings, CadenceState& state);

}  // namespace gpuman::guard
