// For whom a connection counts: the user at its other end, also of TCP where that is on this machine; else
// the address. So a user has one share of a server, however many connections.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>

#include "base/turns.h"

namespace gpuman::daemon::http {

using base::Party;

// Of a user of this machine.
inline Party PartyOf(uid_t user) { return user; }
// Of a connection over TCP. Asks the kernel whose socket the other end is (sock_diag(7)).
Party PartyOfTcp(int connection);

// The user of the socket `own`, connected to `other`, both addresses of TCP; nullopt: none of this machine,
// or the kernel does not tell.
std::optional<uid_t> UserOfTcp(const sockaddr_storage& own, const sockaddr_storage& other);

}  // namespace gpuman::daemon::http
