// How busy the GPUs of a run were, on the mean, while it was on them. A value; pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace gpuman::daemon {

class RunUtilization {
 public:
  // `started`: the second in which the run began. What the driver says in the `hold` seconds after it may be
  // about the time before the run.
  explicit RunUtilization(std::int64_t started = 0, std::int64_t hold = 0)
      : from_(started + hold), hold_(hold) {}

  // In the `seconds` up to `now` the run was on its GPUs. `percent`: how busy those were; nullopt: not known.
  void Add(std::int64_t now, std::int64_t seconds, std::optional<std::int64_t> percent);
  // In percent. nullopt: it was never known, or less than half of what could be seen of the run was, as where
  // the daemon was started anew. `ran`: how long the run took, without the time off its GPUs.
  std::optional<double> Mean(base::Millis ran) const;

 private:
  std::int64_t from_;                  // second
  std::int64_t hold_;                  // seconds
  std::int64_t seen_ = 0, known_ = 0;  // seconds
  std::int64_t sum_ = 0;               // percent, for each second
};

}  // namespace gpuman::daemon
