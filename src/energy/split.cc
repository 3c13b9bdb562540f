#include "energy/split.h"

#include <algorithm>
#include <cmath>

namespace gpuman::energy {
namespace {

// Everybody draws a little, so that a time of its own is never worth nothing beside others' guessed powers.
constexpr double kLeastWatts = 0.1;

double Seconds(Time time) { return std::chrono::duration<double>(time).count(); }

std::map<base::JobId, double> ClaimsOf(const std::vector<Stretch>& stretches, const PowerOf& power_of) {
  std::map<base::JobId, double> claims;
  for (const Stretch& stretch : stretches) {
    double weights = 0;
    for (const EnergyHolder& holder : stretch.holders) weights += holder.weight;
    for (const EnergyHolder& holder : stretch.holders)
      claims[holder.job] +=
          Seconds(stretch.length) * holder.weight / weights * std::max(power_of(holder), kLeastWatts);
  }
  return claims;
}

}  // namespace

Millijoules EnergyOf(double watts, Time time) {
  return static_cast<Millijoules>(std::llround(std::max(watts * Seconds(time) * 1000, 0.0)));
}

EnergySplit Split(Millijoules used, const std::vector<Stretch>& stretches, double rest_watts,
                  const PowerOf& power_of) {
  EnergySplit parts;
  Time time{};
  for (const Stretch& stretch : stretches) time += stretch.length;
  const auto claims = ClaimsOf(stretches, power_of);
  double all = 0;
  for (const auto& [job, claim] : claims) all += claim;
  parts.idle = all > 0 ? std::min(used, EnergyOf(rest_watts, time)) : used;
  const Millijoules above = used - parts.idle;
  Millijoules left = above;
  const auto* largest = claims.empty() ? nullptr : &*claims.begin();
  for (const auto& claim : claims) {
    const auto part =
        all > 0 ? static_cast<Millijoules>(static_cast<double>(above) * (claim.second / all)) : 0;
    parts.of[claim.first] = std::min(part, left);
    left -= parts.of[claim.first];
    if (claim.second > largest->second) largest = &claim;
  }
  // The largest claim gets what rounding leaves over.
  if (largest) parts.of[largest->first] += left;
  return parts;
}

}  // namespace gpuman::energy
