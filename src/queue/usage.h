// The past use of the GPUs by users: for fair share, where older use counts less and less, and for quotas of
// GPU-hours, where only use within a window of time counts.
//
// Plain values, pure functions; thread-compatible. Times are wall times: a clock that is set back makes the
// use look newer, never more.
#pragma once

#include <deque>

#include "base/clock.h"
#include "base/units.h"

namespace gpuman::queue {

// The part of the GPUs that a job takes while it runs: by number (exclusive and shared jobs both count their
// GPUs), and by memory, as parts of a GPU (an exclusive job has all of its memory).
struct UsageRate {
  double gpus = 0;
  double memory = 0;
};

// Use that ended this many half-lives ago does not count any more: less than 2 in 100 of it would be left.
inline constexpr int kHalfLivesKept = 6;

// Sums that halve with each half-life.
struct AccountUsage {
  double gpu_seconds = 0;
  double memory_seconds = 0;  // GPU-byte-seconds over the memory of a GPU
  base::WallTime as_of{};

  // Adds a run from `from` to `to`, now or in the past.
  void Add(const UsageRate& rate, base::WallTime from, base::WallTime to, base::Millis half_life);
  // The use that still counts at `now`: both sums, weighted (settings.h: memory_weight).
  double At(base::WallTime now, base::Millis half_life, double memory_weight) const;
};

// GPU-seconds within the last `window`, in steps of a quarter of an hour: old use leaves the window at most
// that much late.
class UsageWindow {
 public:
  explicit UsageWindow(base::Millis window) : window_(window) {}

  void Add(double gpus, base::WallTime from, base::WallTime to);
  void Forget(base::WallTime now);
  double GpuSeconds() const { return sum_; }
  bool IsEmpty() const { return slices_.empty(); }
  // When the oldest part is forgotten; WallTime::max() (kNever) if there is none.
  base::WallTime Relief() const;

 private:
  struct Slice {
    base::WallTime start;
    double gpu_seconds = 0;
  };

  base::Millis window_;
  std::deque<Slice> slices_{};  // ordered by start
  double sum_ = 0;
};

}  // namespace gpuman::queue
