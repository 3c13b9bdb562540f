#include "notifier/signature.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

namespace gpuman::notifier {

std::string HmacSha256(std::string_view secret, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (!::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
              reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &length))
    return {};
  std::string hex;
  for (unsigned i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

std::string SignatureOf(std::string_view secret, std::int64_t seconds, std::string_view body) {
  const std::string hex = HmacSha256(secret, fmt::format("{}.{}", seconds, body));
  return hex.empty() ? hex : fmt::format("t={},v1={}", seconds, hex);
}

}  // namespace gpuman::notifier
