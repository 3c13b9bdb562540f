// Adds rows up to rows of longer buckets. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "history/point.h"

namespace gpuman::history {

// The beginning of the bucket that `second` is in.
constexpr std::int64_t BucketOf(std::int64_t second, std::int64_t step) { return second - second % step; }

// Not thread-safe. Rows come in the order of time; where the clock is set back, a bucket may come twice.
class Rollup {
 public:
  explicit Rollup(std::int64_t step) : step_(step) {}

  // Adds the row; returns the bucket that it ends, if it begins another.
  std::optional<Row> Add(const Row& row);
  // Ends the bucket under way.
  std::optional<Row> End();
  const std::optional<Row>& open() const { return open_; }

 private:
  std::int64_t step_;
  std::optional<Row> open_;
};

}  // namespace gpuman::history
