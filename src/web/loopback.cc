#include "web/loopback.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace gpuman::web {
namespace {

constexpr int kPorts = 16;  // that are tried where any will do

// A socket that listens on the loopback address of this family; `port` 0: one that is free.
base::Result<base::Fd> ListenOn(sa_family_t family, std::uint16_t port) {
  base::Fd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.ok()) return base::FailSystem(errno, "making a socket");
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    ::setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    reinterpret_cast<sockaddr_in6&>(address) = {AF_INET6, htons(port), 0, in6addr_loopback, 0};
    size = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in&>(address) = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {}};
  }
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE)
      return base::Fail(base::ErrorCode::kConflict, fmt::format("port {} is in use", port),
                        "give another port, or none for one that is free");
    return base::FailSystem(errno, fmt::format("listening on port {}", port));
  }
  return listener;
}

base::Result<std::uint16_t> PortOf(const base::Fd& listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return base::FailSystem(errno, "reading the port");
  return ntohs(address.sin_port);
}

// "localhost" may mean either address, so nobody else gets the same port of the other one. Absent where the
// machine has no IPv6.
base::Result<base::Fd> ListenBeside(std::uint16_t port) {
  auto listener = ListenOn(AF_INET6, port);
  if (!listener && listener.error().code != base::ErrorCode::kConflict) return base::Fd();
  return listener;
}

}  // namespace

base::Result<LoopbackListeners> ListenOnLoopback(std::uint16_t port) {
  for (int tried = 1;; ++tried) {
    GPUMAN_ASSIGN(base::Fd ipv4, ListenOn(AF_INET, port));
    GPUMAN_ASSIGN(const std::uint16_t bound, PortOf(ipv4));
    auto ipv6 = ListenBeside(bound);
    if (ipv6) return LoopbackListeners{std::move(ipv4), std::move(*ipv6), bound};
    if (port != 0 || tried == kPorts) return tl::unexpected(ipv6.error());
  }
}

}  // namespace gpuman::web
