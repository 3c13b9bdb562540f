// Decides whose work is next: parties that have work take turns, so a party with much work delays only
// itself. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace gpuman::base {

// The party that work is counted for and that takes turns: a user of this machine, or an address.
using Party = std::uint64_t;

template <typename Work>
class RoundRobinQueue {
 public:
  void Enter(Party who, Work work) {
    auto& waiting = waiting_[who];
    if (waiting.empty()) order_.push_back(who);
    waiting.push_back(std::move(work));
  }
  // Enters work in the place of the party's oldest, which it returns. Call it only if some of the party
  // waits.
  Work Exchange(Party who, Work work) {
    auto& waiting = waiting_.find(who)->second;
    Work oldest = std::move(waiting.front());
    waiting.pop_front();
    waiting.push_back(std::move(work));
    return oldest;
  }
  bool empty() const { return order_.empty(); }
  // How much work of this party waits.
  std::size_t CountOf(Party who) const {
    const auto mine = waiting_.find(who);
    return mine == waiting_.end() ? 0 : mine->second.size();
  }
  // Call it only if not empty(). A party that has more work goes behind the others.
  Work Next() {
    const Party who = order_.front();
    order_.pop_front();
    const auto mine = waiting_.find(who);
    Work work = std::move(mine->second.front());
    mine->second.pop_front();
    if (mine->second.empty())
      waiting_.erase(mine);
    else
      order_.push_back(who);
    return work;
  }

 private:
  std::deque<Party> order_;  // every party that waits, once
  std::map<Party, std::deque<Work>> waiting_;
};

}  // namespace gpuman::base
