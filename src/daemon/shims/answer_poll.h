// When to look whether shims have answered their orders.
//
// A shim tells by a notification when it has answered, and the daemon looks at once.
// The looks by the clock are for what no notification tells: that there was nobody to answer, that an order
// was refused at once, that a process is gone or stopped, that a notification was lost. So they come soon
// after an order, and then less and less often. For a shim that sends no notifications they stay as they are
// at first.
//
// Pure: a value that is told the time.
#pragma once

#include <algorithm>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::daemon {

class AnswerPoll {
 public:
  static constexpr base::Millis kLongest{25};

  explicit AnswerPoll(base::Millis first) : first_(first), pause_(first) {}

  // Something was ordered.
  void Ordered(base::MonoTime now) {
    pause_ = first_;
    due_ = std::min(due_, now + first_);
  }

  // A look by the clock was made. `silent`: an answer may come of which nobody is told.
  void Looked(base::MonoTime now, bool silent) {
    pause_ = silent ? first_ : std::min(2 * pause_, kLongest);
    due_ = now + pause_;
  }

  // When to look next. In the past where nothing was to be looked for a while.
  base::MonoTime due() const { return due_; }

 private:
  base::Millis first_, pause_;
  base::MonoTime due_ = base::MonoTime::max();
};

}  // namespace gpuman::daemon
