#include "ledger/uncounted_memory_estimator.h"

#include <algorithm>
#include <utility>

namespace gpuman::ledger {
namespace {

// A smaller difference is no complete context: the process is just creating or destroying one.
constexpr std::int64_t kMinContext = std::int64_t{16} << 20;

// After so many samples in which the count has changed, what was seen before them tells nothing any more.
constexpr unsigned kQuietHolds = 50;
constexpr std::size_t kQuietSamples = 2;

std::int64_t MedianOf(std::deque<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

// If a process's memory moves between all samples, these samples count until there are better ones.
void UncountedMemoryEstimator::Add(Process& process, const ProcessSample& sample) {
  const bool steady = std::exchange(process.orders, sample.orders) == sample.orders;
  const bool quiet = std::exchange(process.counted, sample.counted) == sample.counted && steady;
  if (sample.moving || (process.steady && !steady)) return;
  auto& last = process.differences;
  if (steady && !process.steady) last.clear();
  process.steady = process.steady || steady;
  const auto difference =
      static_cast<std::int64_t>(sample.shown.count) - static_cast<std::int64_t>(sample.counted->count);
  last.push_back(difference);
  if (last.size() > kSamples) last.pop_front();
  process.since_quiet = quiet ? 0 : process.since_quiet + 1;
  if (process.since_quiet > kQuietHolds) process.quiet.clear();
  if (!quiet) return;
  process.quiet.push_back(difference);
  if (process.quiet.size() > kQuietSamples) process.quiet.pop_front();
}

// There is at least one difference.
std::int64_t UncountedMemoryEstimator::EstimateOf(const Process& process) {
  const std::int64_t median = MedianOf(process.differences);
  if (process.quiet.size() < kQuietSamples) return median;
  return std::max(median, *std::min_element(process.quiet.begin(), process.quiet.end()));
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
    const std::int64_t estimate = EstimateOf(process);
    uncounted += std::max<std::int64_t>(estimate, 0);
    if (process.steady && last.size() == kSamples && estimate >= kMinContext)
      context_ = std::min(context_.value_or(base::Bytes{UINT64_MAX}),
                          base::Bytes{static_cast<std::uint64_t>(estimate)});
  }
  results_.push_back({static_cast<std::uint64_t>(uncounted)});
  if (results_.size() > kLasts) results_.pop_front();
  return results_.back();
}

base::Bytes UncountedMemoryEstimator::lasting() const {
  return results_.size() < kLasts ? base::Bytes{} : *std::min_element(results_.begin(), results_.end());
}

}  // namespace gpuman::ledger
