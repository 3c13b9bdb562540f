#include "ledger/uncounted_memory_estimator.h"

#include <algorithm>
#include <utility>

namespace gpuman::ledger {
namespace {

// A smaller difference is no complete context: the process is just creating or destroying one.
constexpr std::int64_t kMinContext = std::int64_t{16} << 20;

std::int64_t MedianOf(std::deque<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

// If a process's memory moves between all samples, these samples count until there are better ones.
void UncountedMemoryEstimator::Add(Process& process, const ProcessSample& sample) {
  const bool steady = std::exchange(process.orders, sample.orders) == sample.orders;
  if (sample.moving || (process.steady && !steady)) return;
  auto& last = process.differences;
  if (steady && !process.steady) last.clear();
  process.steady = process.steady || steady;
  last.push_back(static_cast<std::int64_t>(sample.shown.count) -
                 static_cast<std::int64_t>(sample.counted->count));
  if (last.size() > kSamples) last.pop_front();
}

base::Bytes UncountedMemoryEstimator::Observe(const std::vector<ProcessSample>& samples) {
  std::erase_if(processes_, [&](const auto& entry) {
    return std::none_of(samples.begin(), samples.end(),
                        [&](const ProcessSample& l) { return l.process == entry.first; });
  });
  std::int64_t uncounted = 0;
  for (const ProcessSample& sample : samples) {
    if (!sample.counted) {
      processes_.erase(sample.process);
      uncounted += static_cast<std::int64_t>(sample.shown.count);
      continue;
    }
    Process& process = processes_[sample.process];
    Add(process, sample);
    const auto& last = process.differences;
    if (last.empty()) continue;  // its memory moves, and there are no samples from before
    const std::int64_t median = MedianOf(last);
    uncounted += std::max<std::int64_t>(median, 0);
    if (process.steady && last.size() == kSamples && median >= kMinContext)
      context_ = std::min(context_.value_or(base::Bytes{UINT64_MAX}),
                          base::Bytes{static_cast<std::uint64_t>(median)});
  }
  results_.push_back({static_cast<std::uint64_t>(uncounted)});
  if (results_.size() > kLasts) results_.pop_front();
  return results_.back();
}

base::Bytes UncountedMemoryEstimator::lasting() const {
  return results_.size() < kLasts ? base::Bytes{} : *std::min_element(results_.begin(), results_.end());
}

}  // namespace gpuman::ledger
