#include "ledger/outside.h"

#include <algorithm>

namespace gpuman::ledger {
namespace {

// Less is no context: a process that is being made or taken down.
constexpr std::int64_t kLeastContext = std::int64_t{16} << 20;

std::int64_t MedianOf(std::deque<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

base::Bytes Outside::Observe(const std::vector<Look>& looks) {
  std::erase_if(differences_, [&](const auto& entry) {
    return std::none_of(looks.begin(), looks.end(), [&](const Look& l) { return l.process == entry.first; });
  });
  std::int64_t outside = 0;
  for (const Look& look : looks) {
    const auto shown = static_cast<std::int64_t>(look.shown.count);
    if (!look.counted) {
      differences_.erase(look.process);
      outside += shown;
      continue;
    }
    auto& last = differences_[look.process];
    last.push_back(shown - static_cast<std::int64_t>(look.counted->count));
    if (last.size() > kLooks) last.pop_front();
    const std::int64_t median = MedianOf(last);
    outside += std::max<std::int64_t>(median, 0);
    if (last.size() == kLooks && median >= kLeastContext)
      context_ = std::min(context_.value_or(base::Bytes{UINT64_MAX}),
                          base::Bytes{static_cast<std::uint64_t>(median)});
  }
  return {static_cast<std::uint64_t>(outside)};
}

}  // namespace gpuman::ledger
