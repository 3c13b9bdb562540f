#include "suspend/checkpoint_queue.h"

#include <algorithm>

namespace gpuman::suspend {

void CheckpointQueue::Ask(const MoverLimitGroup& party, std::uint64_t id, Call call) {
  Queue& queue = queues_[party];
  if (call == Call::kOther) return queue.waiting.push_back(id);
  queue.waiting.insert(queue.waiting.begin() + static_cast<std::ptrdiff_t>(queue.restores_waiting++), id);
}

bool CheckpointQueue::Withdraw(Queue& queue, std::uint64_t id) {
  const auto found = std::find(queue.waiting.begin(), queue.waiting.end(), id);
  if (found == queue.waiting.end()) return false;
  if (found - queue.waiting.begin() < static_cast<std::ptrdiff_t>(queue.restores_waiting))
    --queue.restores_waiting;
  queue.waiting.erase(found);
  return true;
}

void CheckpointQueue::Overstay(Queue& queue, base::MonoTime now) {
  queue.slow_until = now + settings_.remembered;
}

void CheckpointQueue::End(std::uint64_t id, base::MonoTime now) {
  for (auto it = queues_.begin(); it != queues_.end(); ++it) {
    auto& [party, queue] = *it;
    if (!Withdraw(queue, id) && queue.at_work != id) continue;
    if (queue.at_work == id) {
      queue.at_work.reset();
      if (now - queue.since >= settings_.alone) Overstay(queue, now);
      if (holder_ == party) holder_.reset();
    }
    break;
  }
  // Parties without requests are removed after some time.
  std::erase_if(queues_, [now](const auto& one) {
    return one.second.waiting.empty() && !one.second.at_work && one.second.slow_until <= now;
  });
}

// The queue of the party that has waited longest since its last turn.
CheckpointQueue::Queue* CheckpointQueue::Next(const MoverLimitGroup*& party) {
  Queue* next = nullptr;
  for (auto& [name, queue] : queues_) {
    if (queue.waiting.empty() || queue.at_work || (next && queue.served >= next->served)) continue;
    next = &queue;
    party = &name;
  }
  return next;
}

std::vector<std::uint64_t> CheckpointQueue::Begin(base::MonoTime now) {
  if (holder_) {
    Queue& queue = queues_.at(*holder_);
    if (now - queue.since >= settings_.alone) {
      Overstay(queue, now);
      holder_.reset();
    }
  }
  std::vector<std::uint64_t> begun;
  const MoverLimitGroup* party = nullptr;
  while (!holder_) {
    Queue* const next = Next(party);
    if (!next) break;
    const auto id = next->waiting.front();
    Withdraw(*next, id);
    next->at_work = id;
    next->since = now;
    next->served = ++served_;
    begun.push_back(*next->at_work);
    if (now >= next->slow_until) holder_ = *party;
  }
  return begun;
}

std::optional<base::MonoTime> CheckpointQueue::Deadline() const {
  if (!holder_) return std::nullopt;
  const bool awaited = std::any_of(queues_.begin(), queues_.end(), [&](const auto& one) {
    return one.first != *holder_ && !one.second.waiting.empty();
  });
  if (!awaited) return std::nullopt;
  return queues_.at(*holder_).since + settings_.alone;
}

base::Millis RestartDelay(int deaths) {
  constexpr int kForgiven = 3, kMaxDoublings = 5;
  constexpr base::Millis kFirst{250};
  if (deaths <= kForgiven) return base::Millis(0);
  return kFirst * (1 << std::min(deaths - kForgiven - 1, kMaxDoublings));
}

}  // namespace gpuman::suspend
