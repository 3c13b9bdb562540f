// How fast a counter grows, and how often something was the case, over a window of time. Pure; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::health {

// A counter that only grows, and begins again when its device is reset: what it shows then was counted since.
class GrowthOf {
 public:
  explicit GrowthOf(base::Millis window) : window_(window) {}

  void Add(base::MonoTime now, std::uint64_t counter);
  // What was added within the window that ends with the last value; nullopt: fewer than two values.
  std::optional<std::uint64_t> Growth() const;
  // The same for each `unit`, measured over the whole window: a burst is no rate. nullopt: known for less
  // than that.
  std::optional<double> RatePer(base::Millis unit) const;

 private:
  struct Step {
    base::MonoTime at{};
    std::uint64_t added = 0;  // since the step before
  };
  base::Millis window_;
  std::uint64_t last_ = 0;
  std::deque<Step> steps_;  // the first stands for the beginning of what is known
};

// In how many of the last minutes something was seen, each counted once.
class MinutesWith {
 public:
  explicit MinutesWith(int minutes) : minutes_(minutes) {}

  void Add(base::MonoTime now, bool seen);
  int Count() const { return static_cast<int>(seen_.size()); }

 private:
  int minutes_;
  std::deque<std::int64_t> seen_;  // minutes of the monotonic clock
};

}  // namespace gpuman::health
