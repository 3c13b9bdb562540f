// How long a turn is that others wait for: so long that moving memory takes no more of the time than its
// target. Values; pure.
#pragma once

#include "share/events.h"

namespace gpuman::share {

// What hand-overs took on the GPUs of one domain, as a moving average of the last few.
class MovingMeter {
 public:
  // Adds a hand-over that took so long from the first order to the last, and moved so much in one direction:
  // the larger of both directions, on the GPU where it was most. `paging`: what the driver will need in
  // addition, which nobody sees.
  void Add(Span took, base::Bytes bytes, Span paging = {});
  Span HandOver() const { return hand_over_; }
  // How long it takes to move so many bytes; a cautious guess before anything was measured.
  Span TimeFor(base::Bytes bytes) const;

 private:
  Span hand_over_{};
  double bytes_per_second_ = 0;
};

// How long the driver takes at least to page so much in, and as much out.
Span PagingTime(base::Bytes managed);

// Hand-over time over the target, within the bounds of the settings.
Span QuantumFor(Span hand_over, const SchedulerSettings& settings);

}  // namespace gpuman::share
