// Which user of this machine has a socket of TCP (sock_diag(7)). Thread-safe.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstdint>

namespace gpuman::base {

// An address of IPv4 that is written as one of IPv6 counts as one of IPv4.
struct SocketAddress {
  sa_family_t family = AF_UNSPEC;
  in_port_t port = 0;                    // in the network's order
  std::array<std::uint32_t, 4> words{};  // in the network's order
};
SocketAddress SocketAddressOf(const sockaddr_storage& address);

struct TcpSocketOwner {
  enum class State {
    kKnown,
    kNone,    // no program of this machine has such a socket, or none any more: it was closed
    kUntold,  // the kernel does not tell
  };
  State state = State::kUntold;
  uid_t user = 0;  // with kKnown
};

// The user of the socket with the address `own` that is connected to `other`.
TcpSocketOwner UserOfTcp(const sockaddr_storage& own, const sockaddr_storage& other);

// The user at the other end of a connection of TCP. What the other end sent before it was closed can still be
// read, so whoever asks for the user's rights takes kNone for a stranger's.
TcpSocketOwner UserAtOtherEnd(int connection);

}  // namespace gpuman::base
