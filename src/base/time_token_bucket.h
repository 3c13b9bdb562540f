// Limits the event loop's time for one kind of work, however often it is asked for: a fixed time at once, and
// a share of the time in the long run. Pure.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace gpuman::base {

class TimeTokenBucket {
 public:
  using Duration = std::chrono::nanoseconds;
  // `share`: 20 means one twentieth of the time.
  TimeTokenBucket(Duration at_once, int share) : at_once_(at_once), share_(share) {}

  bool Allows(MonoTime now) const { return SpentAt(now) < at_once_; }
  // The time that may be taken at once.
  Duration Left(MonoTime now) const { return std::max<Duration>(at_once_ - SpentAt(now), Duration::zero()); }
  // Whether nothing is taken, or all of it has been given back.
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
