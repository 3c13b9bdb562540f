// The party for which a connection counts: the user at its other end (over TCP as well, if that end is on
// this machine), else the address. So a user has one share of a server, however many connections the user
// has.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>

#include "base/round_robin_queue.h"

namespace gpuman::daemon::http {

using base::Party;

// The party of a user of this machine.
inline Party PartyOf(uid_t user) { return user; }
// The party of a connection over TCP. Asks the kernel which user owns the socket at the other end
// (sock_diag(7)).
Party PartyOfTcp(int connection);

// The user of the socket with the address `own` that is connected to `other`; both are addresses of TCP.
// nullopt: no socket of this machine has them, or the kernel does not tell the user.
std::optional<uid_t> UserOfTcp(const sockaddr_storage& own, const sockaddr_storage& other);

}  // namespace gpuman::daemon::http
