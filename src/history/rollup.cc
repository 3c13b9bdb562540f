#include "history/rollup.h"

#include <utility>

namespace gpuman::history {

std::optional<Row> Rollup::Add(const Row& row) {
  const auto bucket = BucketOf(row.at, step_);
  std::optional<Row> done;
  // A clock that is set back again and again must not make one bucket longer and longer.
  if (open_ && (open_->at != bucket || open_->seconds >= step_)) done = End();
  if (!open_) {
    open_.emplace();
    open_->at = bucket;
  }
  AddTo(*open_, row);
  return done;
}

std::optional<Row> Rollup::End() { return std::exchange(open_, std::nullopt); }

}  // namespace gpuman::history
