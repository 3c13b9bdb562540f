// How long the next run still waits after a failed run. A change of the wall clock makes no run wait longer
// or start sooner. If an earlier daemon or boot began the delay, only the end in wall time is known; then the
// delay from now is never longer than the whole delay.
//
// Plain values, pure; thread-compatible.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::queue {

class RetryDelay {
 public:
  // `until`: as stored; `longest`: the whole delay.
  RetryDelay(base::WallTime until, base::Millis longest, base::WallTime now, base::MonoTime mono)
      : until_(until), due_(mono + std::min(until - now, longest)) {}

  base::WallTime until() const { return until_; }
  // In wall time, as the clock is now; in the past when it is over.
  base::WallTime EndsAt(base::WallTime now, base::MonoTime mono) const {
    return now + std::chrono::ceil<base::Millis>(due_ - mono);
  }

 private:
  base::WallTime until_;
  base::MonoTime due_;
};

}  // namespace gpuman::queue
