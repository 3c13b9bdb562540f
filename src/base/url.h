// Addresses that something is sent to: http, https and mail alone, taken apart strictly. What is odd is
// refused, so that nobody who reads such an address later sees another host in it than we do.
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
  std::string host;  // a name or an address; of IPv6 without the brackets
  std::uint16_t port = 0;
  bool has_password = false;  // something stands before an @
};

// kInvalidArgument says what is wrong with it.
Result<HttpUrl> ParseHttpUrl(std::string_view text);

// Without user, path and query, in which people keep passwords: "https://host:8080/…". A text that is no such
// address becomes "…".
std::string UrlWithoutSecrets(std::string_view text);

// Whether it is one address as mail servers and headers take it, in ASCII: "ada@example.org".
bool IsMailAddress(std::string_view text);

}  // namespace gpuman::base
