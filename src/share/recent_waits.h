// How long a tenant had to wait for its turn, the last times. A value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "share/events.h"

namespace gpuman::share {

class RecentWaits {
 public:
  struct Summary {
    std::uint64_t count = 0;   // since the tenant joined
    Span median{}, longest{};  // of the last kRemembered
  };

  void Add(Span wait) {
    ++count_;
    last_.push_back(std::max(wait, Span{}));
    if (last_.size() > kRemembered) last_.pop_front();
  }
  Summary Get() const {
    if (last_.empty()) return {};
    std::vector<Span> sorted(last_.begin(), last_.end());
    std::sort(sorted.begin(), sorted.end());
    return {count_, sorted[sorted.size() / 2], sorted.back()};
  }

  static constexpr std::size_t kRemembered = 50;

 private:
  std::uint64_t count_ = 0;
  std::deque<Span> last_;
};

}  // namespace gpuman::share
