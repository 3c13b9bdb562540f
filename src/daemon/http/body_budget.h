// Memory for the bodies of requests that are read or answered. Each user has a bound, and all users together
// have one. The more memory is taken, the less one user may have, so that there is always some left for a
// user who comes. Pure.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>

namespace gpuman::daemon::http {

class BodyBudget {
 public:
  BodyBudget(std::size_t of_user, std::size_t of_all) : of_user_(of_user), of_all_(of_all) {}

  // False: there is not enough memory now. Else the user has the memory until Give.
  bool Take(uid_t user, std::size_t bytes) {
    const auto it = taken_.find(user);
    const std::size_t own = (it == taken_.end() ? 0 : it->second) + bytes;
    // No user has more than is left for the others (dynamic thresholds, as in shared buffers of network
    // switches).
    if (own > of_user_ || bytes > of_all_ - all_ || own > of_all_ - all_ - bytes) return false;
    taken_[user] = own;
    all_ += bytes;
    return true;
  }
  void Give(uid_t user, std::size_t bytes) {
    all_ -= bytes;
    const auto it = taken_.find(user);
    if ((it->second -= bytes) == 0) taken_.erase(it);
  }

 private:
  const std::size_t of_user_, of_all_;
  std::size_t all_ = 0;
  std::map<uid_t, std::size_t> taken_;  // no entry is 0
};

}  // namespace gpuman::daemon::http
