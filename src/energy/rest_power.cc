#include "energy/rest_power.h"

#include <algorithm>
#include <utility>

namespace gpuman::energy {
namespace {

// In seconds: after so long a GPU without processes has come to rest, as far as is known.
constexpr std::chrono::seconds kSettles{4};
// Seconds. The counter moves on in steps of up to 0.1 s, so a shorter time tells little.
constexpr double kShortest = 2, kLongest = 60;
// In how many seconds the figure goes about two thirds of the way to another one: to one that is less than
// kNear away, to one that is much lower, and to one that is much higher.
constexpr double kAverage = 30, kDown = 4, kUp = 600;
constexpr double kNear = 0.1;

}  // namespace

void RestPower::Learn(Millijoules used, Time time, Time after_last_process) {
  const bool settled = after_last_process >= kSettles;
  MeasuredEnergy& seen = settled ? after_ : before_;
  seen.joules += static_cast<double>(used) / 1000;
  seen.seconds += std::chrono::duration<double>(time).count();
  if (seen.seconds < kShortest) return;
  const MeasuredEnergy whole = std::exchange(seen, {});
  Learn(whole.joules / whole.seconds, whole.seconds, settled);
}

void RestPower::Learn(double watts, double seconds, bool settled) {
  if (!watts_ || (settled && !settled_)) {
    watts_ = watts;
    settled_ = settled;
    return;
  }
  if (!settled && watts >= *watts_) return;
  const double away = (watts - *watts_) / *watts_;
  const double scale = away < -kNear ? kDown : away > kNear ? kUp : kAverage;
  *watts_ += (watts - *watts_) * std::min(1.0, std::min(seconds, kLongest) / scale);
}

}  // namespace gpuman::energy
