// How long a run has run, of what its time limit allows. Pure: times go in.
//
// The clock starts with the run, stands still while it is paused, and says when the warning and the limit are
// due. A limit may change while it goes.
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "keeper/spec.h"

namespace gpuman::keeper {

class RunClock {
 public:
  explicit RunClock(const TimeLimit& limit) : limit_(limit) {}

  void Start(base::MonoTime now);
  void Stop() { started_ = false; }
  void Pause(bool paused, base::MonoTime now);
  bool paused() const { return paused_; }
  // 0: none any more. The warning is given again where the new limit leaves time for it.
  void SetLimit(base::Millis limit, base::MonoTime now);

  const TimeLimit& limit() const { return limit_; }
  base::Millis Ran(base::MonoTime now) const;
  // When to look again; nullopt: never, as it is.
  std::optional<base::MonoTime> Due() const;
  // True once, when it is time for the warning.
  bool TakeWarning(base::MonoTime now);
  bool Expired(base::MonoTime now) const;

 private:
  bool Warns() const { return limit_.limit && limit_.warn_signal != 0 && !warned_; }
  base::Millis WarnAt() const { return *limit_.limit - std::min(limit_.warn_before, *limit_.limit); }

  TimeLimit limit_;
  bool started_ = false;
  bool paused_ = false;
  bool warned_ = false;
  base::Millis before_{0};  // up to since_
  base::MonoTime since_{};
};

}  // namespace gpuman::keeper
