#include "base/guest_socket.h"

#include <sys/socket.h>

#include <cerrno>

namespace gpuman::base {
namespace {

// Without room for descriptors: those that the kernel shows are copies, and MSG_CTRUNC tells of them.
ssize_t Peek(int socket, void* data, std::size_t size, bool& more) {
  iovec part{data, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t got = ::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
  more = (message.msg_flags & MSG_CTRUNC) != 0;
  return got;
}

// Nothing can come any more, and nothing is there.
bool IsEmptied(int socket) {
  int type = 0;
  socklen_t size = sizeof type;
  const int on = 1;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0) return false;
  // An empty message and the end look alike; credentials come with the message alone.
  if (type == SOCK_SEQPACKET && ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
    return false;
  if (::shutdown(socket, SHUT_RD) != 0) return false;
  char byte = 0;
  bool more = false;
  return Peek(socket, &byte, 1, more) == 0 && !(type == SOCK_SEQPACKET && more);
}

}  // namespace

void PrepareGuest(int socket) {
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
  // No more than was looked at: what came meanwhile was not.
  return there > 0 ? ::recv(socket, data, static_cast<std::size_t>(there), MSG_DONTWAIT) : there;
}

void GuestSocket::HangUp() {
  if (fd_.ok() && IsEmptied(fd_.get())) fd_.Close();
  Close();
}

}  // namespace gpuman::base
