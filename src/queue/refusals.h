// What a pass refused already. Internal to src/queue. Thread-compatible.
#pragma once

#include <utility>
#include <vector>

#include "queue/room.h"

namespace gpuman::queue {

// What was refused, and why: a job that wants at least as much in every respect is refused as well, without a
// look at the GPUs. A few are enough where needs differ little.
class Refusals {
 public:
  void Add(const Wish& wish, Reason reason) {
    if (refused_.size() < kMost)
      refused_.emplace_back(wish, reason);
    else
      refused_[next_++ % kMost] = {wish, reason};
  }
  // kStarts: it may be worth a look.
  Reason Of(const Wish& wish) const {
    const auto covers = [&](const Wish& refused) {
      const Need &less = refused.need, &more = wish.need;
      return less.gpus <= more.gpus && refused.end <= wish.end && less.share == more.share &&
             less.preemptible >= more.preemptible && (more.possible & ~less.possible).none() &&
             less.memory <= more.memory && less.free_memory <= more.free_memory &&
             less.host_memory <= more.host_memory && less.cpus <= more.cpus;
    };
    for (const auto& [refused, reason] : refused_)
      if (covers(refused)) return reason;
    return Reason::kStarts;
  }

 private:
  static constexpr std::size_t kMost = 16;
  std::vector<std::pair<Wish, Reason>> refused_{};
  std::size_t next_ = 0;
};

}  // namespace gpuman::queue
