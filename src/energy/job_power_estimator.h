// Estimates the power that each job draws above the rest power. It learns from times when the job had the GPU
// for itself. Pure.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "energy/split.h"

namespace gpuman::energy {

class JobPowerEstimator {
 public:
  // The holder alone had the GPU during all of this time, and the GPU used so much above its rest.
  void Learn(const EnergyHolder& holder, Millijoules above, Time time);
  // The holders of the stretches together used `above` more than the GPU uses at rest. The job powers move a
  // part of the way towards values that explain this energy.
  void Adjust(const std::vector<Stretch>& stretches, Millijoules above);
  void Forget(base::JobId job) { works_.erase(job); }
  bool Knows(const EnergyHolder& holder) const {
    return holder.moves ? moves_.has_value() : works_.contains(holder.job);
  }
  // Whether it had the GPU for itself long enough to be told from others. Copies are as good as known.
  bool HasSeenAlone(const EnergyHolder& holder) const;
  // The holder's power above the rest, in watts. If a job was never alone on the GPU, returns the mean of the
  // jobs that were: then only time and weights count.
  double Of(const EnergyHolder& holder) const;

 private:
  struct PowerAlone {
    double watts = 0;
    double own = 0;  // seconds in which it had the GPU for itself; older ones count less, as programs change
  };
  std::map<base::JobId, PowerAlone> works_;
  std::optional<PowerAlone> moves_;
};

}  // namespace gpuman::energy
