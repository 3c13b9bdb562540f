#include "daemon/core/user_names.h"

#include "daemon/core/authorization.h"

namespace gpuman::daemon {

constexpr std::chrono::minutes kKept{10};

const std::string& UserNames::Of(uid_t uid) {
  Entry& entry = known_[uid];
  if (entry.name.empty() || clock_.Mono() >= entry.until) entry = {UserName(uid), clock_.Mono() + kKept};
  return entry.name;
}

}  // namespace gpuman::daemon
