// What a hand-over costs, and how long a turn is while other tenants wait: so long that moving memory takes
// no larger part of the time than its target. Values; pure.
#pragma once

#include "share/events.h"

namespace gpuman::share {

// How long hand-overs took on the GPUs of one domain, as a moving average of the last few.
class HandOverCostEstimator {
 public:
  // Bytes of one direction: the larger of both directions, on the GPU where it was most. `copied`: those that
  // did not have to be copied do not count.
  struct Moved {
    base::Bytes bytes, copied;
  };
  // Adds a hand-over. `took`: from the first order to the last. `paging`: the time that the driver will need
  // in addition, which cannot be observed.
  void Add(Span took, Moved moved, Span paging = {});
  Span HandOver() const { return hand_over_; }
  // How long it takes to copy so many bytes; a cautious guess before the first measurement. Memory that comes
  // back is copied whole, however little of it was copied on its way out.
  Span TimeFor(base::Bytes bytes) const;

 private:
  Span hand_over_{};
  double bytes_per_second_ = 0;
};

// How long the driver takes at least to page `managed` bytes in and as many out.
Span PagingTime(base::Bytes managed);

// The hand-over time divided by the target, within the bounds of the settings.
Span QuantumFor(Span hand_over, const SchedulerSettings& settings);

}  // namespace gpuman::share
