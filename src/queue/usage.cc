#include "queue/usage.h"

#include <algorithm>
#include <cmath>

namespace gpuman::queue {
namespace {

using base::Millis;
using base::WallTime;

constexpr Millis kSlice = std::chrono::minutes(15);

double Seconds(Millis time) { return std::chrono::duration<double>(time).count(); }

// The part that is left after `time`.
double Left(Millis time, Millis half_life) {
  return std::exp2(-static_cast<double>(std::max(time, Millis(0)).count()) /
                   static_cast<double>(half_life.count()));
}

WallTime SliceOf(WallTime time) { return WallTime(time.time_since_epoch() / kSlice * kSlice); }

}  // namespace

void AccountUsage::Add(const UsageRate& rate, WallTime from, WallTime to, Millis half_life) {
  if (to <= from) return;
  const WallTime now = std::max(as_of, to);
  const double old = Left(now - as_of, half_life);
  // The sum of one unit for each second from `from` to `to`, halved with age: the integral of 2^-((now - t) /
  // half_life).
  const double scale = Seconds(half_life) / std::log(2.0);
  const double added = scale * (Left(now - to, half_life) - Left(now - from, half_life));
  gpu_seconds = gpu_seconds * old + rate.gpus * added;
  memory_seconds = memory_seconds * old + rate.memory * added;
  as_of = now;
}

double AccountUsage::At(WallTime now, Millis half_life, double memory_weight) const {
  return ((1 - memory_weight) * gpu_seconds + memory_weight * memory_seconds) * Left(now - as_of, half_life);
}

void UsageWindow::Add(double gpus, WallTime from, WallTime to) {
  for (WallTime start = SliceOf(from); start < to; start += kSlice) {
    const double used = gpus * Seconds(std::min(to, start + kSlice) - std::max(from, start));
    auto at = std::lower_bound(slices_.begin(), slices_.end(), start,
                               [](const Slice& slice, WallTime time) { return slice.start < time; });
    if (at == slices_.end() || at->start != start) at = slices_.insert(at, Slice{start, 0});
    at->gpu_seconds += used;
    sum_ += used;
  }
}

void UsageWindow::Forget(WallTime now) {
  while (!slices_.empty() && slices_.front().start + kSlice + window_ <= now) {
    sum_ -= slices_.front().gpu_seconds;
    slices_.pop_front();
  }
  if (slices_.empty()) sum_ = 0;
}

WallTime UsageWindow::Relief() const {
  return slices_.empty() ? WallTime::max() : slices_.front().start + kSlice + window_;
}

}  // namespace gpuman::queue
