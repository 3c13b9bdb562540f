#include "base/untrusted_socket.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

namespace gpuman::base {
namespace {

// Offers no room for descriptors: with room the kernel would make copies of them. MSG_CTRUNC says that there
// are some.
ssize_t Peek(int socket, void* data, std::size_t size, bool& more) {
  iovec part{data, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t got = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
  more = (message.msg_flags & MSG_CTRUNC) != 0;
  return got;
}

constexpr std::size_t kMaxPeeked = 64u << 10;

// Shuts the receiving side down, then looks: true if all queued data comes without descriptors.
bool HasNoDescriptors(int socket) {
  int type = 0;
  socklen_t size = sizeof type;
  const int on = 1;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return false;
  // An empty message looks like the end of the data, but only a message comes with credentials.
  if (type == SOCK_SEQPACKET && ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return false;
  if (::shutdown(socket, SHUT_RD) != 0) return false;
  char byte = 0;
  bool more = false;
  if (type == SOCK_SEQPACKET) return Peek(socket, &byte, 1, more) == 0 && !more;
  // A peek at a stream ends at the first descriptor and at out-of-band data: then FIONREAD counts more than
  // was shown.
  int all = 0;
  if (::ioctl(socket, FIONREAD, &all) != 0 || all < 0 || static_cast<std::size_t>(all) > kMaxPeeked)
    return false;
  std::vector<char> room(static_cast<std::size_t>(all) + 1);
  return Peek(socket, room.data(), room.size(), more) == all && !more;
}

}  // namespace

void PrepareUntrusted(int socket) {
  const int on = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
}

ssize_t ReceiveData(int socket, void* data, std::size_t size) {
  bool descriptors = false;
  const ssize_t there = Peek(socket, data, size, descriptors);
  if (there >= 0 && descriptors) {
    errno = EBADMSG;
    return -1;
  }
  // Takes only the bytes that were looked at: more may have come meanwhile.
  return there > 0 ? ::recv(socket, data, static_cast<std::size_t>(there), MSG_DONTWAIT) : there;
}

void UntrustedSocket::HangUp() {
  if (fd_.ok() && HasNoDescriptors(fd_.get())) fd_.Close();
  Close();
}

}  // namespace gpuman::base
