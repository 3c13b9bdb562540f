// Keeps names of users for a while, because the user database may be on another machine.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "base/clock.h"

namespace gpuman::daemon {

// Not thread-safe.
class UserNames {
 public:
  explicit UserNames(const base::Clock& clock) : clock_(clock) {}
  // The number where the user has no name.
  const std::string& Of(uid_t uid);

 private:
  struct Entry {
    std::string name;
    base::MonoTime until{};
  };
  const base::Clock& clock_;
  std::map<uid_t, Entry> known_;
};

}  // namespace gpuman::daemon
