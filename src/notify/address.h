// Decides to which addresses messages may be sent. If the daemon posted to any address that a user names,
// that user could reach services that only this machine can reach: its own services, the private network, a
// cloud's metadata. So only addresses of the public network are allowed, and those that the administrator
// names.
//
// Pure; thread-safe. The caller must check the address to which a socket connects, after the name was looked
// up.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuman::notify {

// IPv4 is kept as ::ffff:a.b.c.d, so that both notations of an address are equal.
using Address = std::array<std::uint8_t, 16>;

// nullopt: the address is null, or neither IPv4 nor IPv6.
std::optional<Address> AddressOf(const sockaddr* address);
std::optional<Address> ParseAddress(const std::string& text);
std::string ToString(const Address& address);

struct IpNetwork {
  Address first{};
  unsigned bits = 128;  // of the 16 bytes
  bool Has(const Address& address) const;
};

// "10.1.0.0/16", "127.0.0.1", "::1", "fd00::/8". kInvalidArgument says what is wrong.
base::Result<IpNetwork> ParseNetwork(const std::string& text);

// The kind of network that makes the address not public: "the machine itself", "a private network", …;
// nullopt: the address is public.
std::optional<std::string_view> ReservedFor(const Address& address);

// Why no message may be sent to the address; nullopt: messages may be sent. `own`: addresses of this machine.
// They are refused even if they are public, because a service at such an address may be open only to this
// machine.
std::optional<std::string> RefusalOf(const Address& address, const std::vector<IpNetwork>& allowed,
                                     const std::vector<Address>& own = {});

}  // namespace gpuman::notify
