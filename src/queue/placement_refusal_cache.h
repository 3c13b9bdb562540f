// The requests that a pass has refused already. Internal to src/queue. Thread-compatible.
#pragma once

#include <utility>
#include <vector>

#include "queue/room_checker.h"

namespace gpuman::queue {

// Refused requests with their reasons. A pass refuses a job that wants at least as much in every respect
// without a check of the GPUs. A few entries are enough, since needs differ little.
class PlacementRefusalCache {
 public:
  void Add(const PlacementRequest& request, WaitReason reason) {
    if (refused_.size() < kMax)
      refused_.emplace_back(request, reason);
    else
      refused_[next_++ % kMax] = {request, reason};
  }
  // kStarts: no entry applies, so the pass must check the GPUs.
  WaitReason Of(const PlacementRequest& request) const {
    const auto covers = [&](const PlacementRequest& refused) {
      const Need &less = refused.need, &more = request.need;
      return less.gpus <= more.gpus && refused.end <= request.end && less.share == more.share &&
             less.preemptible >= more.preemptible && (more.possible & ~less.possible).none() &&
             less.memory <= more.memory && less.free_memory <= more.free_memory &&
             less.host_memory <= more.host_memory && less.cpus <= more.cpus;
    };
    for (const auto& [refused, reason] : refused_)
      if (covers(refused)) return reason;
    return WaitReason::kStarts;
  }

 private:
  static constexpr std::size_t kMax = 16;
  std::vector<std::pair<PlacementRequest, WaitReason>> refused_{};
  std::size_t next_ = 0;
};

}  // namespace gpuman::queue
