// Which addresses messages may be sent to. A daemon that posts to any address that a user names is a way into
// what only the machine itself can reach: its own services, the network behind it, a cloud's metadata. So
// only addresses of the public network are allowed, and those that the administrator names.
//
// Pure; thread-safe. Check the address that a socket connects to, after the name was looked up.
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

// nullopt: neither IPv4 nor IPv6, or no address.
std::optional<Address> AddressOf(const sockaddr* address);
std::optional<Address> ParseAddress(const std::string& text);
std::string ToString(const Address& address);

struct Network {
  Address first{};
  unsigned bits = 128;  // of the 16 bytes
  bool Has(const Address& address) const;
};

// "10.1.0.0/16", "127.0.0.1", "::1", "fd00::/8". kInvalidArgument says what is wrong.
base::Result<Network> ParseNetwork(const std::string& text);

// The kind of network that messages are not sent to: "the machine itself", "a private network", …; nullopt:
// the address is public.
std::optional<std::string_view> ReservedFor(const Address& address);

// Why no message is sent to the address; nullopt: it may be sent. `own`: addresses of this machine, which are
// refused even if they are public: a service there may be open to the machine only.
std::optional<std::string> RefusalOf(const Address& address, const std::vector<Network>& allowed,
                                     const std::vector<Address>& own = {});

}  // namespace gpuman::notify
