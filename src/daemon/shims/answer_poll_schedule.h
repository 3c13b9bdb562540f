// Decides when to check whether shims have answered their orders.
//
// A shim sends a notification when it has answered, and the daemon checks at once. Timed checks are for cases
// without a notification: no process was there to answer, an order was refused at once, a process has ended
// or is stopped, a notification was lost. So timed checks come soon after an order, and then less and less
// often. For a shim that sends no notifications, they stay as frequent as at first.
//
// Pure: a value that is told the time.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::daemon {

class AnswerPollSchedule {
 public:
  static constexpr base::Millis kLongest{25};

  explicit AnswerPollSchedule(base::Millis first) : first_(first), pause_(first) {}

  // Call when an order was given.
  void Ordered(base::MonoTime now) {
    pause_ = first_;
    due_ = std::min(due_, now + first_);
  }

  // Call after a timed check. `silent`: an answer may come without a notification.
  void Checked(base::MonoTime now, bool silent) {
    pause_ = silent ? first_ : std::min(2 * pause_, kLongest);
    due_ = now + pause_;
  }

  // When to check next. The time may be in the past if no check was needed for a while.
  base::MonoTime due() const { return due_; }

 private:
  base::Millis first_, pause_;
  base::MonoTime due_ = base::MonoTime::max();
};

}  // namespace gpuman::daemon
