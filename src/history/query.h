// What a question about history asks for: which resolution answers it, and its buckets. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "history/point.h"

namespace gpuman::history {

inline constexpr std::int64_t kMinPoints = 2, kMaxPoints = 2000;

struct Query {
  std::int64_t since = 0, until = 0;  // seconds since 1970; `since` is earlier
  std::int64_t points = 300;          // at most so many buckets, kMinPoints to kMaxPoints
};

struct Plan {
  std::size_t tier = 0;               // the resolution that answers
  std::int64_t since = 0, until = 0;  // whole buckets
  std::int64_t step = 1;              // the length of a bucket, a multiple of the resolution's
  std::size_t buckets() const { return static_cast<std::size_t>((until - since) / step); }
};

// Buckets begin at multiples of their length, so that a page that asks again a moment later gets the same
// ones. `oldest`: the earliest row of each resolution (Store::Oldest). A coarser resolution answers where a
// finer one does not reach back as far as the question.
Plan PlanOf(const Query& question, const std::array<std::optional<std::int64_t>, kTiers>& oldest);

// The rows of a plan, added up bucket by bucket. A bucket with `seconds` 0 is a gap.
class Buckets {
 public:
  explicit Buckets(const Plan& plan);
  // In any order; rows of other times are left out.
  void Add(const Row& row);
  const std::vector<Row>& rows() const { return rows_; }

 private:
  Plan plan_;
  std::vector<Row> rows_;
};

}  // namespace gpuman::history
