// Names of users, kept for a while: the user database may be a network away.
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
  // The number where there is no name.
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
