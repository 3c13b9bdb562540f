// How a tenant's work comes and goes, from its last few bursts and gaps. Values; pure.
//
// A forecast takes the earlier bursts (or gaps) that lasted longer than the present one has so far, and is
// the mean of the time that remained in them from this point on; if there are none, there is no forecast.
#pragma once

#include <deque>
#include <optional>

#include "share/events.h"

namespace gpuman::share {

class Rhythm {
 public:
  void AddBurst(Span length) { Add(bursts_, length); }
  void AddGap(Span length) { Add(gaps_, length); }

  std::optional<Span> BurstLeft(Span so_far) const { return Left(bursts_, so_far); }
  std::optional<Span> GapLeft(Span so_far) const { return Left(gaps_, so_far); }
  bool KnowsGaps() const { return !gaps_.empty(); }
  // There were at least two gaps, and each was longer than `length`.
  bool AreGapsOver(Span length) const;
  bool KnowsBursts() const { return !bursts_.empty(); }
  // When the forecast of a gap changes next, counted from the begin of the gap.
  std::optional<Span> NextGapEnd(Span so_far) const;

 private:
  using History = std::deque<Span>;
  static void Add(History& history, Span length);
  static std::optional<Span> Left(const History& history, Span so_far);
  History bursts_, gaps_;
};

}  // namespace gpuman::share
