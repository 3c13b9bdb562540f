#include "mailbox.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace gpuman::load {
namespace {

using base::Result;

// The bytes of a message, and the room for one descriptor.
struct Wire {
  unsigned from = 0;
  driver::abi::CUipcMemHandle handle{};
  driver::abi::CUdeviceptr address = 0;
  driver::abi::CUcontext context = nullptr;
};

struct Envelope {
  explicit Envelope(Wire& wire) : part{&wire, sizeof wire} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  iovec part;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

}  // namespace

Result<Mailboxes> Mailboxes::Make(unsigned ranks) {
  Mailboxes all;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      return base::FailSystem(errno, "making a socket for a rank");
    all.boxes_.push_back({base::Fd(ends[0]), base::Fd(ends[1])});
  }
  return all;
}

Result<> Mailboxes::Send(unsigned to, const Message& message) const {
  Wire wire{message.from, message.handle, message.address, message.context};
  Envelope envelope(wire);
  if (message.descriptor.get() >= 0) {
    cmsghdr* const header = CMSG_FIRSTHDR(&envelope.header);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = message.descriptor.get();
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  } else {
    envelope.header.msg_control = nullptr;
    envelope.header.msg_controllen = 0;
  }
  ssize_t sent;
  do sent = ::sendmsg(boxes_[to].out.get(), &envelope.header, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return base::FailSystem(errno, "sending a handle to another rank");
  return {};
}

Result<Message> Mailboxes::Receive(unsigned own) const {
  Wire wire;
  Envelope envelope(wire);
  ssize_t got;
  do got = ::recvmsg(boxes_[own].in.get(), &envelope.header, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof wire))
    return base::FailSystem(got < 0 ? errno : EPIPE, "receiving a handle of another rank");
  Message message{wire.from, wire.handle, wire.address, wire.context, {}};
  const cmsghdr* const header = CMSG_FIRSTHDR(&envelope.header);
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    message.descriptor = base::Fd(descriptor);
  }
  return message;
}

}  // namespace gpuman::load
