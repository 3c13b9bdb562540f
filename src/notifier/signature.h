// The signature of a posted body: HMAC-SHA256 (RFC 2104) over the time and the body. With it a receiver can
// check the sender of the body, that the body was not changed, and that it is not an old copy.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuman::notifier {

// Returns lower-case hexadecimal digits. Empty: the library failed.
std::string HmacSha256(std::string_view secret, std::string_view text);

// "t=SECONDS,v1=HEX", over "SECONDS.BODY". Empty: the library failed.
std::string SignatureOf(std::string_view secret, std::int64_t seconds, std::string_view body);

}  // namespace gpuman::notifier
