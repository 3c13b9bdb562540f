// Which addresses messages may be sent to. A daemon that posts wherever a user says is a way into what only
// the machine itself can reach: its own services, the network behind it, a cloud's metadata. So only
// addresses of the public network are allowed, and those that the administrator names.
//
// Pure; thread-safe. To be asked about the address a socket connects to, after the name was looked up.
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

// IPv4 is kept as ::ffff:a.b.c.d, so that both ways to write an address are one.
using Address = std::array<std::uint8_t, 16>;

// nullopt: neither IPv4 nor IPv6, or no address at all.
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

// What kind of network it is of that messages are not sent to: "the machine itself", "a private network", …;
// nullopt: it is public.
std::optional<std::string_view> ReservedFor(const Address& address);

// Why nothing is sent there; nullopt: it may be. `own`: addresses of this machine, which are its own also
// where they are public: what listens there may be open to the machine alone.
std::optional<std::string> RefusalOf(const Address& address, const std::vector<Network>& allowed,
                                     const std::vector<Address>& own = {});

}  // namespace gpuman::notify
