// Keeps the callers of the last moment with their groups, so that a user who submits job after job is not
// looked up for each job.
#pragma once

#include <sys/types.h>

#include <map>
#include <utility>

#include "base/clock.h"
#include "daemon/core/authorization.h"

namespace gpuman::daemon {

// Not thread-safe.
class CallerCache {
 public:
  // `clock` must outlive this object.
  explicit CallerCache(const base::Clock& clock) : clock_(clock) {}
  // The caller's data are not older than kKept. The reference is valid until the next call.
  const Caller& Of(const http::Peer& peer) {
    const base::MonoTime now = clock_.Mono();
    std::erase_if(known_, [now](const auto& entry) { return entry.second.until <= now; });
    const auto [it, fresh] = known_.try_emplace({peer.uid, peer.gid});
    if (fresh) it->second = {CallerOf(peer), now + kKept};
    return it->second.caller;
  }

 private:
  static constexpr base::Millis kKept{1000};
  struct Entry {
    Caller caller;
    base::MonoTime until{};
  };
  const base::Clock& clock_;
  std::map<std::pair<uid_t, gid_t>, Entry> known_;
};

}  // namespace gpuman::daemon
