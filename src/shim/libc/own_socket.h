// Sockets of the abstract namespace under names that nobody can guess: how threads that do not share a table
// of descriptors, or processes, find each other without a path. Of type SOCK_SEQPACKET, close-on-exec.
#pragma once

#include <sys/socket.h>

#include <cstdint>

namespace gpuman::shim {

// Makes a name and listens there; `flags` are those of socket(2). -1: that cannot be here.
int ListenUnderNewName(std::uint8_t (&name)[16], int backlog, int flags);

// A connection to who listens there, which does not block; -1: nobody does, or its queue was full for so
// long.
int ConnectTo(const std::uint8_t (&name)[16], int milliseconds);

// Who is at the other end; its ids are -1 where the kernel does not say.
ucred PeerOf(int socket);

}  // namespace gpuman::shim
