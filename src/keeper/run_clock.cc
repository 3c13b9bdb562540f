#include "keeper/run_clock.h"

#include <algorithm>

namespace gpuman::keeper {

using base::Millis;
using base::MonoTime;

void RunClock::Start(MonoTime now) {
  started_ = true;
  paused_ = false;
  warned_ = false;
  before_ = Millis{0};
  since_ = now;
}

void RunClock::Pause(bool paused, MonoTime now) {
  if (paused == paused_) return;
  before_ = Ran(now);
  since_ = now;
  paused_ = paused;
}

void RunClock::SetLimit(Millis limit, MonoTime now) {
  limit_.limit = limit.count() > 0 ? std::optional(limit) : std::nullopt;
  if (started_ && limit_.limit && Ran(now) < WarnAt()) warned_ = false;
}

Millis RunClock::Ran(MonoTime now) const {
  if (!started_) return Millis{0};
  return paused_ ? before_ : before_ + std::chrono::duration_cast<Millis>(now - since_);
}

std::optional<MonoTime> RunClock::Due() const {
  if (!started_ || paused_ || !limit_.limit) return std::nullopt;
  return since_ + (Warns() ? WarnAt() : *limit_.limit) - before_;
}

bool RunClock::TakeWarning(MonoTime now) {
  if (!started_ || paused_ || !Warns() || Ran(now) < WarnAt() || Expired(now)) return false;
  warned_ = true;
  return true;
}

bool RunClock::Expired(MonoTime now) const {
  return started_ && !paused_ && limit_.limit && Ran(now) >= *limit_.limit;
}

}  // namespace gpuman::keeper
