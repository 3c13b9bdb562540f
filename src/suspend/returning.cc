#include "suspend/returning.h"

#include <algorithm>
#include <tuple>

namespace gpuman::suspend {

std::vector<base::JobId> ChooseReturning(std::vector<Candidate> candidates, BytesByGpu free) {
  const auto rank = [](const Candidate& one) { return std::tuple(-one.priority, one.since, one.job); };
  std::sort(candidates.begin(), candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  std::vector<base::JobId> chosen;
  for (const Candidate& candidate : candidates) {
    const bool fits = std::all_of(candidate.needs.begin(), candidate.needs.end(), [&](const auto& need) {
      const auto room = free.find(need.first);
      return need.second.count == 0 || (room != free.end() && need.second <= room->second);
    });
    for (const auto& [gpu, bytes] : candidate.needs) free[gpu] = fits ? free[gpu] - bytes : base::Bytes{0};
    if (fits) chosen.push_back(candidate.job);
  }
  return chosen;
}

}  // namespace gpuman::suspend
