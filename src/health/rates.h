// How fast a counter grows, and in how many minutes a condition was seen, over a window of time. Pure; for
// one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::health {

// Measures a counter that only grows, and starts at 0 again when its device is reset. A value below the last
// one means a reset; all of that value was counted since the reset.
class GrowthMeter {
 public:
  explicit GrowthMeter(base::Millis window) : window_(window) {}

  void Add(base::MonoTime now, std::uint64_t counter);
  // The growth within the window that ends with the last value; nullopt: fewer than two values.
  std::optional<std::uint64_t> Growth() const;
  // The growth for each `unit` of time, measured over the whole window, so that a short burst does not count
  // as a high rate. nullopt: the values do not cover the whole window yet.
  std::optional<double> RatePer(base::Millis unit) const;

 private:
  struct Step {
    base::MonoTime at{};
    std::uint64_t added = 0;  // since the step before
  };
  base::Millis window_;
  std::uint64_t last_ = 0;
  std::deque<Step> steps_;  // the first marks the beginning of the window
};

// Counts in how many of the last minutes a condition was seen.
class ConditionMinuteCounter {
 public:
  explicit ConditionMinuteCounter(int minutes) : minutes_(minutes) {}

  void Add(base::MonoTime now, bool seen);
  int Count() const { return static_cast<int>(seen_.size()); }

 private:
  int minutes_;
  std::deque<std::int64_t> seen_;  // minutes of the monotonic clock
};

}  // namespace gpuman::health
