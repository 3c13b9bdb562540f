#include "ledger/uncounted_memory.h"

#include <algorithm>

namespace gpuman::ledger {
namespace {

// Less is no context: the process is making one or taking it down.
constexpr std::int64_t kMinContext = std::int64_t{16} << 20;

std::int64_t MedianOf(std::deque<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

base::Bytes UncountedMemory::Observe(const std::vector<ProcessSample>& samples) {
  std::erase_if(differences_, [&](const auto& entry) {
    return std::none_of(samples.begin(), samples.end(),
                        [&](const ProcessSample& l) { return l.process == entry.first; });
  });
  std::int64_t uncounted = 0;
  for (const ProcessSample& sample : samples) {
    const auto shown = static_cast<std::int64_t>(sample.shown.count);
    if (!sample.counted) {
      differences_.erase(sample.process);
      uncounted += shown;
      continue;
    }
    auto& last = differences_[sample.process];
    if (!sample.moving) last.push_back(shown - static_cast<std::int64_t>(sample.counted->count));
    if (last.empty()) continue;  // it moves, and nothing is known of before
    if (last.size() > kSamples) last.pop_front();
    const std::int64_t median = MedianOf(last);
    uncounted += std::max<std::int64_t>(median, 0);
    if (last.size() == kSamples && median >= kMinContext)
      context_ = std::min(context_.value_or(base::Bytes{UINT64_MAX}),
                          base::Bytes{static_cast<std::uint64_t>(median)});
  }
  return {static_cast<std::uint64_t>(uncounted)};
}

}  // namespace gpuman::ledger
