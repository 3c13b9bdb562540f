// Which user a gpuman-mover becomes, and how it is started.
//
//   gpuman-mover [--uid N --gid N [--groups A,B,…]] [--lock]
//
// Descriptor 0 is a unix socket of type seqpacket: requests come in, answers go out (request.h). The first
// answer is one to a request "can" with id 0, which the daemon does not send. With --lock, descriptor 3 is a
// file that the movers of one MoverLimitGroup lock (flock) while they make the driver's checkpoint calls: one
// at a time, also when the daemon was restarted while an old mover is still busy. A mover is its user's
// process: no other user's mover waits for its lock, and the daemon believes its answers only for that user's
// jobs, and only as answers to the daemon's requests.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace gpuman::suspend {

// The user that the mover becomes: the user of the processes it works on; it must see their GPU.
struct MoverUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups{};
  std::string instance{};  // "MIG-…": the mover sees only this; empty: every GPU that is not split
  // A mover hands memory from one of its processes to the next. Processes of one user that do not trust each
  // other have movers with different words here.
  std::string trust{};
  friend auto operator<=>(const MoverUser&, const MoverUser&) = default;
};

// All movers of one party share its limits: a user is one party by the uid, whatever the groups and the
// instance, and a container by the trust.
struct MoverLimitGroup {
  uid_t uid = 0;
  std::string trust{};
  friend auto operator<=>(const MoverLimitGroup&, const MoverLimitGroup&) = default;
};
inline MoverLimitGroup PartyOf(const MoverUser& user) { return {user.uid, user.trust}; }

inline constexpr int kMoverSocket = 0;
inline constexpr int kMoverLock = 3;

struct MoverOptions {
  std::optional<MoverUser> user{};  // none: the mover keeps the user that started it
  bool lock = false;
};

// kInvalidArgument names the word that is wrong.
base::Result<MoverOptions> ParseMoverOptions(int argc, char** argv);

}  // namespace gpuman::suspend
