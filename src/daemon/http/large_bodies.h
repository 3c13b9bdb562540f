// Who sends a large body, or waits for the answer to one: a user one at a time, and a few users together, so
// that there is memory for all of them. Who goes first waits for nobody but themselves. Pure.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <map>

namespace gpuman::daemon::http {

class LargeBodies {
 public:
  explicit LargeBodies(std::size_t users) : users_(users) {}

  // False: not now. Else until Give.
  bool Take(uid_t user, bool goes_first) {
    const auto others = std::count_if(now_.begin(), now_.end(), [](const auto& one) { return !one.second; });
    if (!goes_first && static_cast<std::size_t>(others) >= users_) return false;
    return now_.try_emplace(user, goes_first).second;
  }
  void Give(uid_t user) { now_.erase(user); }

 private:
  const std::size_t users_;
  std::map<uid_t, bool> now_;  // by user, whether they go first
};

}  // namespace gpuman::daemon::http
