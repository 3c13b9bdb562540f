// A TCP socket whose last close waits for an hour, because its other end does not read the data that were
// sent. A stranger may pass such a socket to us. For tests.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/fd.h"

namespace gpuman::base {

class SlowClosingSocket {
 public:
  SlowClosingSocket() {
    const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    fd_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const linger hour{1, 3600};
    ok_ = ::bind(listener.get(), at, size) == 0 && ::listen(listener.get(), 1) == 0 &&
          ::getsockname(listener.get(), at, &size) == 0 && ::connect(fd_.get(), at, size) == 0 &&
          ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour) == 0;
    peer_ = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const char much[4096] = {};
    while (ok_ && ::send(fd_.get(), much, sizeof much, MSG_DONTWAIT) > 0) {
    }
  }

  bool ok() const { return ok_ && peer_.ok(); }
  Fd Take() { return std::move(fd_); }

  // Passes the socket with `data`. The receiver has the only reference then, so it must not read meanwhile.
  bool PassTo(int socket, std::string_view data, int flags = 0) {
    iovec part{const_cast<char*>(data.data()), data.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = fd_.get();
    std::memcpy(CMSG_DATA(header), &number, sizeof number);
    const bool passed =
        ::sendmsg(socket, &message, flags | MSG_NOSIGNAL) == static_cast<ssize_t>(data.size());
    if (passed) fd_.Close();
    return passed;
  }

  // Reads what was sent, so that no thread waits any more, until the other end is closed.
  void AwaitClosed() {
    char buffer[65536];
    while (::recv(peer_.get(), buffer, sizeof buffer, 0) > 0) {
    }
  }

 private:
  bool ok_ = false;
  Fd fd_, peer_;
};

}  // namespace gpuman::base
