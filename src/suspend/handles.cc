#include "suspend/handles.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace gpuman::suspend {
namespace {

constexpr std::size_t kMaxPassed = 253;  // SCM_MAX_FD: the kernel passes no more with one message

}  // namespace

bool CanBeDeviceMemory(int descriptor) {
  // F_GET_SEALS works for memory files only, and asks no file system.
  if (::fcntl(descriptor, F_GET_SEALS) >= 0) return true;
  struct statx status {};
  return ::statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
         S_ISCHR(status.stx_mode);
}

ssize_t ReceiveAll(int socket, void* data, std::size_t size, std::vector<base::Fd>& files) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPassed * sizeof(int))];
  iovec part{data, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t got = -1;
  do {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return got;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + at, sizeof number);
      files.emplace_back(number);
    }
  }
  return got;
}

}  // namespace gpuman::suspend
