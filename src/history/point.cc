#include "history/point.h"

#include <algorithm>

namespace gpuman::history {
namespace {

bool IsInBounds(std::int64_t value) { return value >= -kMaxValue && value <= kMaxValue; }

bool IsSound(const Aggregate& figures, std::uint32_t seconds) {
  if (figures.count == 0) return figures == Aggregate{};
  if (figures.count > seconds || !IsInBounds(figures.min) || !IsInBounds(figures.max)) return false;
  const auto count = static_cast<std::int64_t>(figures.count);
  return figures.min * count <= figures.sum && figures.sum <= figures.max * count;
}

void SetActivity(Row& row, JobActivityState state) {
  row.waiting = state == JobActivityState::kWaiting ? 1 : 0;
  row.suspended = state == JobActivityState::kSuspended ? 1 : 0;
}

}  // namespace

Row RowOf(std::int64_t second, const HistorySample& reading) {
  Row row;
  row.at = second;
  row.seconds = 1;
  Replace(row, reading);
  return row;
}

void Replace(Row& row, const HistorySample& reading) {
  SetActivity(row, reading.state);
  for (std::size_t i = 0; i < kMetrics; ++i) {
    const auto value = reading.values[i];
    if (!value || !IsInBounds(*value)) continue;
    auto& figures = row.figures[i];
    figures.min = figures.count > 0 ? std::min(figures.min, *value) : *value;
    figures.max = figures.count > 0 ? std::max(figures.max, *value) : *value;
    figures.sum = *value;
    figures.count = 1;
  }
}

void AddTo(Row& into, const Row& other) {
  into.seconds += other.seconds;
  into.waiting += other.waiting;
  into.suspended += other.suspended;
  for (std::size_t i = 0; i < kMetrics; ++i) {
    auto& sum = into.figures[i];
    const auto& more = other.figures[i];
    if (more.count == 0) continue;
    sum.min = sum.count > 0 ? std::min(sum.min, more.min) : more.min;
    sum.max = sum.count > 0 ? std::max(sum.max, more.max) : more.max;
    sum.sum += more.sum;
    sum.count += more.count;
  }
}

bool IsSound(const Row& row) {
  if (row.at < 0 || row.at > kLastTime || row.seconds == 0 || row.seconds > kMaxSeconds) return false;
  if (row.waiting > row.seconds || row.suspended > row.seconds - row.waiting) return false;
  return std::all_of(row.figures.begin(), row.figures.end(),
                     [&](const Aggregate& figures) { return IsSound(figures, row.seconds); });
}

}  // namespace gpuman::history
