// The party for which a connection counts: the user at its other end (over TCP as well, if that end is on
// this machine), else the address. So a user has one share of a server, however many connections the user
// has.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include "base/round_robin_queue.h"

namespace gpuman::daemon::http {

using base::Party;

// The party of a user of this machine.
inline Party PartyOf(uid_t user) { return user; }
// The party of a connection over TCP.
Party PartyOfTcp(int connection);

}  // namespace gpuman::daemon::http
