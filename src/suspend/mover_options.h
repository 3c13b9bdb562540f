// Who a gpuman-mover is to become, and how it is started.
//
//   gpuman-mover [--uid N --gid N [--groups A,B,…]] [--lock]
//
// Descriptor 0 is a unix socket of type seqpacket: requests come in, answers go out (request.h). The first
// that goes out is the answer to a request "can" of number 0 that nobody asked. With --lock, descriptor 3 is
// a file on which the movers of this user (its Party) take a lock (flock) while they make the driver's
// checkpoint calls: one at a time, also when the daemon was restarted while an old mover is still busy. A
// mover is its user's process: nothing that it holds is waited for by another user's, and what it answers is
// believed for that user's jobs, within what it was asked.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace gpuman::suspend {

// Who the mover is to become: it must be of the same user as the processes it works on, and see their GPU.
struct MoverUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};
  std::string instance{};  // "MIG-…": what it sees, and nothing beside it; empty: every GPU that is not split
  // A mover hands memory from one of its processes to the next. Those that do not trust each other, though
  // they are one user, have movers with different words here.
  std::string trust{};
  friend auto operator<=>(const MoverUser&, const MoverUser&) = default;
};

// Who shares what a user may do with movers, however many they have: a user by the uid, whatever the groups
// and the instance, and containers by the trust.
struct Party {
  uid_t uid = 0;
  std::string trust{};
  friend auto operator<=>(const Party&, const Party&) = default;
};
inline Party PartyOf(const MoverUser& user) { return {user.uid, user.trust}; }

inline constexpr int kMoverSocket = 0;
inline constexpr int kMoverLock = 3;

struct MoverOptions {
  std::optional<MoverUser> user{};  // none: stay who we are
  bool lock = false;
};

// kInvalidArgument names the word that is wrong.
base::Result<MoverOptions> ParseMoverOptions(int argc, char** argv);

}  // namespace gpuman::suspend
