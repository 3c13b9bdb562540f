// How much of its time limit a run has used. Pure: the caller passes the times.
//
// The clock starts with the run, stands still while it is paused, and says when the warning and the limit are
// due. The limit may change meanwhile.
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
  // 0: no limit any more. The warning is given again where the new limit leaves time for it.
  void SetLimit(base::Millis limit, base::MonoTime now);

  const TimeLimit& limit() const { return limit_; }
  base::Millis Ran(base::MonoTime now) const;
  // When the caller must look again; nullopt: not before something changes.
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
  base::Millis before_{0};  // the time that the run had used before since_
  base::MonoTime since_{};
};

}  // namespace gpuman::keeper
