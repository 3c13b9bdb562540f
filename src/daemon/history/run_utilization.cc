#include "daemon/history/run_utilization.h"

#include <algorithm>
#include <chrono>

namespace gpuman::daemon {

void RunUtilization::Add(std::int64_t now, std::int64_t seconds, std::optional<std::int64_t> percent) {
  seconds = std::min(seconds, now - from_);
  if (seconds <= 0) return;
  seen_ += seconds;
  if (!percent) return;
  known_ += seconds;
  sum_ += seconds * *percent;
}

std::optional<double> RunUtilization::Mean(base::Millis ran) const {
  if (known_ == 0 || std::chrono::seconds(seen_ * 2 + hold_) < ran) return std::nullopt;
  return static_cast<double>(sum_) / static_cast<double>(known_);
}

}  // namespace gpuman::daemon
