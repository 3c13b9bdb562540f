// Users who send a large body, or wait for the answer to one. Each user has one large body at a time, and
// only a few users have one at the same time, so that there is memory for all of them. A user who goes first
// waits only for the own earlier body, not for other users. Pure.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <map>

namespace gpuman::daemon::http {

class LargeBodies {
 public:
  explicit LargeBodies(std::size_t users) : users_(users) {}

  // False: the user has to try again later. Else the user counts until Give.
  bool Take(uid_t user, bool goes_first) {
    const auto others = std::count_if(now_.begin(), now_.end(), [](const auto& one) { return !one.second; });
    if (!goes_first && static_cast<std::size_t>(others) >= users_) return false;
    return now_.try_emplace(user, goes_first).second;
  }
  void Give(uid_t user) { now_.erase(user); }

 private:
  const std::size_t users_;
  std::map<uid_t, bool> now_;  // by user: whether the user goes first
};

}  // namespace gpuman::daemon::http
