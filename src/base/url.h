// Addresses that gpuman sends to: only http, https and mail, parsed strictly. Anything unusual is refused, so
// that no later reader of such an address sees another host in it than gpuman does.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuman::base {

inline constexpr std::size_t kLongestUrl = 2048;

struct HttpUrl {
  bool tls = false;
  std::string host;  // a name or an address; IPv6 without the brackets
  std::uint16_t port = 0;
};

// kInvalidArgument: the message says what is wrong with it.
Result<HttpUrl> ParseHttpUrl(std::string_view text);

// Without user, path and query, in which people put passwords: "https://host:8080/…". "…" for a text that is
// not such an address.
std::string UrlWithoutSecrets(std::string_view text);

// Whether the text is one address as mail servers and headers accept it, in ASCII: "ada@example.org".
bool IsMailAddress(std::string_view text);

}  // namespace gpuman::base
