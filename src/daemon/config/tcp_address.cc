#include "daemon/config/tcp_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <cstring>

#include "base/parse_number.h"

namespace gpuman::daemon {
namespace {

template <typename Socket>
void Store(const Socket& socket, TcpAddress& address) {
  std::memcpy(&address.socket, &socket, sizeof socket);
  address.size = sizeof socket;
}

bool ReadHost(std::string host, std::uint16_t port, TcpAddress& address) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    Store(four, address);
    return true;
  }
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') return false;
  host = host.substr(1, host.size() - 2);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1) return false;
  Store(six, address);
  return true;
}

}  // namespace

base::Result<TcpAddress> ParseTcpAddress(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return base::Fail(base::ErrorCode::kInvalidArgument,
                      fmt::format("'{}' {}: write \"127.0.0.1:9835\" or \"[::1]:9835\"", text, what));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("has no port");
  const auto port = base::ParseNumber<std::uint16_t>(text.substr(colon + 1)).value_or(0);
  if (port == 0) return wrong("has no port from 1 to 65535");
  TcpAddress address;
  address.text = text;
  if (!ReadHost(std::string(text.substr(0, colon)), port, address)) return wrong("has no numeric address");
  return address;
}

bool IsLoopback(const TcpAddress& address) {
  if (address.socket.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address.socket, sizeof four);
    return four.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &address.socket, sizeof six);
  return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

}  // namespace gpuman::daemon
