// How much longer a failed run's next one waits, whatever becomes of the clock on the wall: a clock that is
// set makes nobody wait longer, and nobody run sooner. Of the daemon before, and of the boot before, only the
// end on the wall is known; then it is never more than the whole delay from now.
//
// Plain values, pure; thread-compatible.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::queue {

class RetryDelay {
 public:
  // `until`: as it is stored; `longest`: the whole delay.
  RetryDelay(base::WallTime until, base::Millis longest, base::WallTime now, base::MonoTime mono)
      : until_(until), due_(mono + std::min(until - now, longest)) {}

  base::WallTime until() const { return until_; }
  // On the wall, as that is now; in the past when it is over.
  base::WallTime EndsAt(base::WallTime now, base::MonoTime mono) const {
    return now + std::chrono::ceil<base::Millis>(due_ - mono);
  }

 private:
  base::WallTime until_;
  base::MonoTime due_;
};

}  // namespace gpuman::queue
