#include "web/secret.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

namespace gpuman::web {

base::Result<std::string> NewSecret() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return base::FailSystem(errno, "getting random numbers");
  std::string secret;
  for (const unsigned char byte : bytes) secret += fmt::format("{:02x}", byte);
  return secret;
}

std::string LinkTo(std::string_view address, std::string_view secret) {
  return fmt::format("http://{}/#secret={}", address, secret);
}

}  // namespace gpuman::web
