#include "notify/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/parse_number.h"

namespace gpuman::notify {
namespace {

constexpr Address kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr unsigned kMappedBits = 96;

Address Mapped(const std::uint8_t* four) {
  Address address = kMapped;
  std::copy_n(four, 4, address.begin() + 12);
  return address;
}

struct Reserved {
  const char* first;
  unsigned bits;
  std::string_view what;
};

// IANA's registries of special-purpose addresses (RFC 6890 and those after it).
constexpr Reserved kReserved[] = {
    {"0.0.0.0", 8, "the machine itself"},
    {"127.0.0.0", 8, "the machine itself"},
    {"10.0.0.0", 8, "a private network"},
    {"172.16.0.0", 12, "a private network"},
    {"192.168.0.0", 16, "a private network"},
    {"100.64.0.0", 10, "a provider's own network"},
    {"169.254.0.0", 16, "the local link"},
    {"192.0.0.0", 24, "a reserved network"},
    {"198.18.0.0", 15, "a network for measurements"},
    {"224.0.0.0", 4, "a group of machines"},
    {"240.0.0.0", 4, "a reserved network"},
    {"::", 128, "the machine itself"},
    {"::1", 128, "the machine itself"},
    {"fc00::", 7, "a private network"},
    {"fec0::", 10, "a private network"},
    {"fe80::", 10, "the local link"},
    {"ff00::", 8, "a group of machines"},
    {"100::", 64, "a reserved network"},
    // Addresses that can lead to any other address: Teredo, NAT64 for local use.
    {"2001::", 32, "a tunnel"},
    {"64:ff9b:1::", 48, "a tunnel"},
};

unsigned BitsOf(const Reserved& reserved) {
  return std::strchr(reserved.first, '.') ? reserved.bits + kMappedBits : reserved.bits;
}

// The IPv4 address inside an address that is translated on its way: NAT64, 6to4, "IPv4-compatible".
std::optional<Address> Inside(const Address& address) {
  static const IpNetwork kNat64{*ParseAddress("64:ff9b::"), 96};
  static const IpNetwork k6to4{*ParseAddress("2002::"), 16};
  static const IpNetwork kCompatible{*ParseAddress("::"), 96};
  if (kNat64.Has(address) || kCompatible.Has(address)) return Mapped(address.data() + 12);
  if (k6to4.Has(address)) return Mapped(address.data() + 2);
  return std::nullopt;
}

}  // namespace

std::optional<Address> AddressOf(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, address, sizeof(four));
    return Mapped(reinterpret_cast<const std::uint8_t*>(&four.sin_addr));
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 six;
  std::memcpy(&six, address, sizeof(six));
  Address bytes;
  std::copy_n(six.sin6_addr.s6_addr, bytes.size(), bytes.begin());
  return bytes;
}

std::optional<Address> ParseAddress(const std::string& text) {
  Address bytes{};
  if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  std::array<std::uint8_t, 4> four{};
  if (::inet_pton(AF_INET, text.c_str(), four.data()) == 1) return Mapped(four.data());
  return std::nullopt;
}

std::string ToString(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (IpNetwork{kMapped, kMappedBits}.Has(address))
    ::inet_ntop(AF_INET, address.data() + 12, text.data(), text.size());
  else
    ::inet_ntop(AF_INET6, address.data(), text.data(), text.size());
  return text.data();
}

bool IpNetwork::Has(const Address& address) const {
  const unsigned whole = bits / 8, rest = bits % 8;
  if (!std::equal(first.begin(), first.begin() + whole, address.begin())) return false;
  if (rest == 0) return true;
  return ((first[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

base::Result<IpNetwork> ParseNetwork(const std::string& text) {
  const auto slash = text.find('/');
  const auto address = ParseAddress(text.substr(0, slash));
  if (!address)
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("'{}' is neither an address nor a network such as 10.1.0.0/16", text));
  const bool four = text.find(':') == std::string::npos;
  const unsigned most = four ? 32 : 128;
  const auto bits = slash == std::string::npos
                        ? std::optional(most)
                        : base::ParseNumber<unsigned>(std::string_view(text).substr(slash + 1));
  if (!bits || *bits > most)
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("'{}': what follows the / is a number from 0 to {}", text, most));
  return IpNetwork{*address, four ? *bits + kMappedBits : *bits};
}

std::optional<std::string_view> ReservedFor(const Address& address) {
  for (const auto& reserved : kReserved)
    if (IpNetwork{*ParseAddress(reserved.first), BitsOf(reserved)}.Has(address)) return reserved.what;
  if (const auto inside = Inside(address)) return ReservedFor(*inside);
  return std::nullopt;
}

std::optional<std::string> RefusalOf(const Address& address, const std::vector<IpNetwork>& allowed,
                                     const std::vector<Address>& own) {
  auto what = ReservedFor(address);
  const auto inside = Inside(address);
  const auto is_own = [&](const Address& one) { return one == address || one == inside; };
  if (!what && std::any_of(own.begin(), own.end(), is_own)) what = "the machine itself";
  if (!what) return std::nullopt;
  const auto names = [&](const Address& one) {
    return std::any_of(allowed.begin(), allowed.end(),
                       [&](const IpNetwork& network) { return network.Has(one); });
  };
  if (names(address)) return std::nullopt;
  return fmt::format("{} is an address of {}, and notify.allow does not name it", ToString(address), *what);
}

}  // namespace gpuman::notify
