#include "base/passed_files.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace gpuman::base {
namespace {

// Room for the control message with as many descriptors as there can be.
struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(kMaxPassedFiles * sizeof(int))];
};

}  // namespace

ssize_t SendWithFiles(int socket, std::string_view data, std::span<const int> files) {
  if (files.size() > kMaxPassedFiles) {
    errno = EINVAL;
    return -1;
  }
  iovec part{const_cast<char*>(data.data()), data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ControlBuffer control{};
  if (!files.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(header), files.data(), files.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t ReceiveWithFiles(int socket, void* data, std::size_t size, std::vector<Fd>& files) {
  ControlBuffer control;
  iovec part{data, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ssize_t got = -1;
  do {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
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

}  // namespace gpuman::base
