// Sockets of the abstract namespace, under names that no other program can guess. By such a name, processes,
// or threads that do not share a table of descriptors, find each other without a path. The sockets are of
// type SOCK_SEQPACKET and close-on-exec.
#pragma once

#include <sys/socket.h>

#include <cstdint>

namespace gpuman::shim {

// Makes a name and returns a socket that listens under it; -1: not possible. `flags` are those of socket(2).
int ListenUnderNewName(std::uint8_t (&name)[16], int backlog, int flags);

// Returns a connection, which does not block, to the socket that listens under the name. -1: no socket
// listens there, or its queue was full for `milliseconds`.
int ConnectTo(const std::uint8_t (&name)[16], int milliseconds);

// Returns the process and user at the other end; the ids are -1 where the kernel does not tell them.
ucred PeerOf(int socket);

}  // namespace gpuman::shim
