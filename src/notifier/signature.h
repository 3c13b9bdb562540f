// The signature of a posted body: HMAC-SHA256 (RFC 2104) over the time and the body. It shows a receiver who
// sent the body, that it is whole, and when a copy is sent again later.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuman::notifier {

// Lower-case hexadecimal digits. Empty: the library failed.
std::string HmacSha256(std::string_view secret, std::string_view text);

// "t=SECONDS,v1=HEX", over "SECONDS.BODY". Empty: the library failed.
std::string SignatureOf(std::string_view secret, std::int64_t seconds, std::string_view body);

}  // namespace gpuman::notifier
