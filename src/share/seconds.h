// Spans of time as seconds, for arithmetic with rates and weights. Values; pure.
#pragma once

#include <algorithm>
#include <chrono>

#include "share/events.h"

namespace gpuman::share {

inline double Seconds(Span span) { return std::chrono::duration<double>(span).count(); }
// At most three years: longer spans would not fit into nanoseconds after more arithmetic.
inline Span FromSeconds(double seconds) {
  return std::chrono::duration_cast<Span>(std::chrono::duration<double>(std::min(seconds, 1e8)));
}

}  // namespace gpuman::share
