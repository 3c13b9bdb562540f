#include "energy/job_power_estimator.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpuman::energy {
namespace {

// In so many seconds of its own what was seen before loses two thirds of its weight.
constexpr double kMemory = 20;
// The assumed power of copies over the bus, before any was measured: about that of an H200, above its rest.
constexpr double kMovingWatts = 60;
constexpr double kUnknownWatts = 100;

}  // namespace

void JobPowerEstimator::Learn(const EnergyHolder& holder, Millijoules above, Time time) {
  const double seconds = std::chrono::duration<double>(time).count();
  if (seconds <= 0) return;
  PowerAlone& seen = holder.moves ? moves_.emplace(moves_.value_or(PowerAlone{})) : works_[holder.job];
  const double before = seen.own * std::exp(-seconds / kMemory);
  seen.own = before + seconds;
  seen.watts = (seen.watts * before + static_cast<double>(above) / 1000) / seen.own;
}

// Least mean squares, normalised: where there is one holder, all that is missing is its own.
void JobPowerEstimator::Adjust(const std::vector<Stretch>& stretches, Millijoules above) {
  constexpr double kTrust = 0.5;
  std::map<std::pair<base::JobId, bool>, double> seconds;
  for (const Stretch& stretch : stretches) {
    double weights = 0;
    for (const EnergyHolder& holder : stretch.holders) weights += holder.weight;
    for (const EnergyHolder& holder : stretch.holders)
      seconds[{holder.moves ? base::JobId{} : holder.job, holder.moves}] +=
          std::chrono::duration<double>(stretch.length).count() * holder.weight / weights;
  }
  double missing = static_cast<double>(above) / 1000, squares = 0;
  for (const auto& [who, time] : seconds) {
    missing -= Of({who.first, 1, who.second}) * time;
    squares += time * time;
  }
  if (squares <= 0) return;
  std::map<std::pair<base::JobId, bool>, double> before, watts;
  for (const auto& [who, time] : seconds) {
    before[who] = Of({who.first, 1, who.second});
    watts[who] = std::max(before[who] + missing * time / squares, 0.0);
  }
  for (const auto& [who, watt] : watts) {
    PowerAlone& seen = who.second ? moves_.emplace(moves_.value_or(PowerAlone{})) : works_[who.first];
    // A tenth of a second of its own says as much.
    seen.watts = before.at(who) + (watt - before.at(who)) * kTrust / (1 + 10 * seen.own);
  }
}

bool JobPowerEstimator::HasSeenAlone(const EnergyHolder& holder) const {
  constexpr double kEnough = 0.2;  // seconds
  const auto seen = works_.find(holder.job);
  return holder.moves || (seen != works_.end() && seen->second.own >= kEnough);
}

double JobPowerEstimator::Of(const EnergyHolder& holder) const {
  if (holder.moves) return moves_ ? moves_->watts : kMovingWatts;
  if (const auto seen = works_.find(holder.job); seen != works_.end()) return seen->second.watts;
  if (works_.empty()) return kUnknownWatts;
  double sum = 0;
  for (const auto& [job, seen] : works_) sum += seen.watts;
  return sum / static_cast<double>(works_.size());
}

}  // namespace gpuman::energy
