#include "shim/libc/own_socket.h"

#include <sys/random.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

#include "ledger/wire/transfer.h"

namespace gpuman::shim {
namespace {

namespace wire = ledger::wire;

socklen_t AddressOf(const std::uint8_t (&name)[16], sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  char* const text = address.sun_path + 1;  // the first byte is zero: an abstract name
  int length = std::snprintf(text, sizeof address.sun_path - 1, "gpuman-ipc-");
  for (const std::uint8_t byte : name)
    length += std::snprintf(text + length, sizeof address.sun_path - 1 - static_cast<std::size_t>(length),
                            "%02x", byte);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
}

}  // namespace

int ListenUnderNewName(std::uint8_t (&name)[16], int backlog, int flags) {
  if (::getrandom(name, sizeof name, 0) != static_cast<ssize_t>(sizeof name)) return -1;
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
  sockaddr_un address;
  const socklen_t size = AddressOf(name, address);
  if (socket >= 0 && ::bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      ::listen(socket, backlog) == 0)
    return socket;
  if (socket >= 0) ::close(socket);
  return -1;
}

int ConnectTo(const std::uint8_t (&name)[16], int milliseconds) {
  const std::int64_t end = wire::EndAfter(milliseconds);
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const socklen_t size = AddressOf(name, address);
  if (socket < 0) return -1;
  while (::connect(socket, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if ((errno != EAGAIN && errno != EINTR) || wire::MonotonicMs() >= end) {
      ::close(socket);
      return -1;
    }
    const timespec pause{0, 1'000'000};  // the queue of the listening socket is full
    ::nanosleep(&pause, nullptr);
  }
  return socket;
}

ucred PeerOf(int socket) {
  ucred peer{-1, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t size = sizeof peer;
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer;
}

}  // namespace gpuman::shim
