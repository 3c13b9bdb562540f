// How busy the GPUs of a run were, on the mean, while it was on them. A value; pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace gpuman::daemon {

class RunUtilization {
 public:
  // What the driver says before the second `from` may be about the time before the run.
  explicit RunUtilization(std::int64_t from = 0) : from_(from) {}

  // In the `seconds` up to `now` the run was on its GPUs. `percent`: how busy those were; nullopt: not known.
  void Add(std::int64_t now, std::int64_t seconds, std::optional<std::int64_t> percent);
  // In percent. nullopt: it was never known, or less than half of the run was seen, as where the daemon was
  // started anew. `ran`: how long the run took, without the time during which it was off its GPUs.
  std::optional<double> Mean(base::Millis ran) const;

 private:
  std::int64_t from_;                  // second
  std::int64_t seen_ = 0, known_ = 0;  // seconds
  std::int64_t sum_ = 0;               // percent, for each second
};

}  // namespace gpuman::daemon
