// How much of the event loop's time something may take, however often it is asked for: so much at once, and a
// share of the time in the long run. Pure.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace gpuman::base {

class TimeBudget {
 public:
  using Duration = std::chrono::nanoseconds;
  // `share`: one of so many seconds.
  TimeBudget(Duration at_once, int share) : at_once_(at_once), share_(share) {}

  bool Allows(MonoTime now) const { return SpentAt(now) < at_once_; }
  // What may be taken at once.
  Duration Left(MonoTime now) const {
    return std::max<Duration>(at_once_ - SpentAt(now), Duration::zero());
  }
  // As if nothing had ever been taken.
  bool IsUntouched(MonoTime now) const { return SpentAt(now) == Duration::zero(); }
  void Spend(MonoTime now, Duration time) {
    spent_ = SpentAt(now) + time;
    at_ = now;
  }

 private:
  Duration SpentAt(MonoTime now) const {
    return std::max<Duration>(spent_ - Duration(now - at_) / share_, Duration::zero());
  }

  const Duration at_once_;
  const int share_;
  Duration spent_{};  // less what has been given back since
  MonoTime at_{};
};

}  // namespace gpuman::base
