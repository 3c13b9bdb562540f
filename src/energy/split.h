// Decides which jobs used the energy that a GPU spent between two readings of its counter. Pure.
//
// A part of it is idle: what the GPU draws at rest, times the time. It is nobody's. The rest is split among
// those that had the GPU, by the time, by the work that each had in flight where several ran at once, and by
// the power that each is known to draw.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace gpuman::energy {

using Millijoules = std::uint64_t;
using Time = base::MonoTime::duration;

// Stands for processes of no job, and for energy of unknown origin.
inline constexpr base::JobId kOthers{0};

struct EnergyHolder {
  base::JobId job;
  double weight = 1;   // its part of the work, beside the weights of those that run at once; above 0
  bool moves = false;  // it does not run: its memory comes to the GPU, or leaves it
  friend bool operator==(const EnergyHolder&, const EnergyHolder&) = default;
};
using Holders = std::vector<EnergyHolder>;  // by job

struct Stretch {
  Time length{};
  Holders holders;  // all this time
};

struct EnergySplit {
  std::map<base::JobId, Millijoules> of;
  Millijoules idle = 0;
};

// The watts that the holder draws above the rest power while it has the GPU for itself.
using PowerOf = std::function<double(const EnergyHolder&)>;

// The sum of the parts is `used`. Where nobody had the GPU, all of it is idle.
EnergySplit Split(Millijoules used, const std::vector<Stretch>& stretches, double rest_watts,
                  const PowerOf& power_of);

// Watts and a time as energy, 0 if negative.
Millijoules EnergyOf(double watts, Time time);

}  // namespace gpuman::energy
