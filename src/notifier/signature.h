// The signature of what is posted: HMAC-SHA256 (RFC 2104) over the time and the body, so that a receiver
// knows who sent it, that it is whole, and that nobody sends it again later.
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpuman::notifier {

// Lower-case hexadecimal digits. Empty: the library failed.
std::string HmacSha256(std::string_view secret, std::string_view text);

// "t=SECONDS,v1=HEX", over "SECONDS.BODY". Empty: as above.
std::string SignatureOf(std::string_view secret, std::int64_t seconds, std::string_view body);

}  // namespace gpuman::notifier
