// Which user of this machine has a socket of TCP (sock_diag(7)). Thread-safe.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>

namespace gpuman::base {

// An address of IPv4 that is written as one of IPv6 counts as one of IPv4.
struct TcpAddress {
  sa_family_t family = AF_UNSPEC;
  in_port_t port = 0;                    // in the network's order
  std::array<std::uint32_t, 4> words{};  // in the network's order
};
TcpAddress TcpAddressOf(const sockaddr_storage& address);

// The user of the socket with the address `own` that is connected to `other`. nullopt: no socket of this
// machine has them, or the kernel does not tell the user.
std::optional<uid_t> UserOfTcp(const sockaddr_storage& own, const sockaddr_storage& other);

// The user at the other end of a connection of TCP; nullopt as above.
std::optional<uid_t> UserAtOtherEnd(int connection);

}  // namespace gpuman::base
