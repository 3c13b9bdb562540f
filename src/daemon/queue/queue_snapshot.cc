#include "daemon/queue/queue_snapshot.h"

#include <algorithm>

#include "queue/forecast.h"
#include "queue/pass.h"

namespace gpuman::daemon {

void QueueSnapshot::Make() {
  plan_ = known_ ? std::move(*known_) : queue::Pass(snapshot_, now_);
  known_.reset();
  estimates_ = queue::Forecast(snapshot_, plan_, now_, kForecasts);
  const auto& waiting = snapshot_.waiting;
  rows_.reserve(waiting.size());
  for (queue::Index row = 0; row < waiting.size(); ++row) rows_.emplace_back(waiting[row].id, row);
  std::sort(rows_.begin(), rows_.end());
  std::vector<bool> in_order(waiting.size());
  order_.reserve(waiting.size());
  for (const auto row : plan_.order) {
    if (row >= waiting.size() || in_order[row]) continue;
    in_order[row] = true;
    order_.push_back(row);
  }
  for (const auto& [id, row] : rows_)
    if (!in_order[row]) order_.push_back(row);
  explainer_.emplace(snapshot_, plan_, now_, dependents_);
}

queue::Index QueueSnapshot::RowOf(queue::JobId job) const {
  const auto at = std::lower_bound(rows_.begin(), rows_.end(), std::pair(job, queue::Index{0}));
  return at != rows_.end() && at->first == job ? at->second : queue::kNone;
}

}  // namespace gpuman::daemon
