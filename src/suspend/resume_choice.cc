#include "suspend/resume_choice.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace gpuman::suspend {

ResumeChoice ChooseToResume(std::vector<ResumeCandidate> candidates, BytesByGpu free, base::MonoTime now,
                            RoomSince& since) {
  const auto rank = [](const ResumeCandidate& one) { return std::tuple(-one.priority, one.since, one.job); };
  std::sort(candidates.begin(), candidates.end(),
            [&](const ResumeCandidate& a, const ResumeCandidate& b) { return rank(a) < rank(b); });
  ResumeChoice choice;
  RoomSince had = std::exchange(since, {});
  for (const ResumeCandidate& candidate : candidates) {
    const bool fits = std::all_of(candidate.needs.begin(), candidate.needs.end(), [&](const auto& need) {
      const auto room = free.find(need.first);
      return need.second.count == 0 || (room != free.end() && need.second <= room->second);
    });
    for (const auto& [gpu, bytes] : candidate.needs) free[gpu] = fits ? free[gpu] - bytes : base::Bytes{0};
    if (!fits) continue;
    const auto known = had.find(candidate.job);
    const base::MonoTime began = since[candidate.job] = known == had.end() ? now : known->second;
    (now - began >= candidate.room_lasts ? choice.now : choice.soon).push_back(candidate.job);
  }
  return choice;
}

void UnsampledMemoryTracker::TakeFrom(BytesByGpu& free,
                                      const std::map<std::string, base::MonoTime>& sampled) {
  for (Arrival& arrival : all_) {
    std::erase_if(arrival.bytes, [&](const auto& there) {
      const auto when = sampled.find(there.first);
      return when == sampled.end() || when->second > arrival.at;
    });
    for (const auto& [gpu, bytes] : arrival.bytes) free[gpu] = free[gpu] - bytes;
  }
  std::erase_if(all_, [](const Arrival& arrival) { return arrival.bytes.empty(); });
}

}  // namespace gpuman::suspend
