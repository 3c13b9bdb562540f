#include "energy/rest_power.h"

#include <algorithm>
#include <utility>

namespace gpuman::energy {
namespace {

// Seconds. The counter moves on in steps, so a shorter time tells little.
constexpr double kShortest = 0.5, kLongest = 60;
// In how many seconds the figure goes about two thirds of the way to another one.
constexpr double kDown = 5, kUp = 600;

}  // namespace

void RestPower::Learn(Millijoules used, Time time) {
  joules_ += static_cast<double>(used) / 1000;
  seconds_ += std::chrono::duration<double>(time).count();
  if (seconds_ < kShortest) return;
  const double seconds = std::exchange(seconds_, 0);
  const double seen = std::exchange(joules_, 0) / seconds;
  if (!watts_) {
    watts_ = seen;
    return;
  }
  const double scale = seen < *watts_ ? kDown : kUp;
  *watts_ += (seen - *watts_) * std::min(1.0, std::min(seconds, kLongest) / scale);
}

}  // namespace gpuman::energy
