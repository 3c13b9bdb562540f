// Connections of unix sockets whose other end may be anybody, who may pass descriptors along (SCM_RIGHTS): to
// let go of one can take as long as its owner wishes (closer.h). So nothing is taken off such a connection
// before it is known that no descriptors come with it, and it is closed where that holds up nobody.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "base/closer.h"
#include "base/fd.h"

namespace gpuman::base {

// Of a connection that was just accepted: out-of-band data is kept in order (SO_OOBINLINE), since it is
// thrown away unseen otherwise, with what comes with it.
void PrepareUntrusted(int socket);

// As recv(2) with MSG_DONTWAIT. EBADMSG: what comes next comes with descriptors; it stays where it is.
ssize_t ReceiveData(int socket, void* data, std::size_t size);

// Owns such a connection; not thread-safe. Closed by the closer. It is shared by all that may be left when
// the server that accepted them is gone.
class UntrustedSocket {
 public:
  UntrustedSocket() = default;
  UntrustedSocket(Fd fd, std::shared_ptr<Closer> closer) : fd_(std::move(fd)), closer_(std::move(closer)) {}
  UntrustedSocket(UntrustedSocket&&) noexcept = default;
  UntrustedSocket& operator=(UntrustedSocket&& other) noexcept {
    if (this == &other) return *this;
    Close();
    fd_ = std::move(other.fd_);
    closer_ = std::move(other.closer_);
    return *this;
  }
  ~UntrustedSocket() { Close(); }

  int get() const { return fd_.get(); }
  bool ok() const { return fd_.ok(); }
  // For one that others may have as well.
  void Close() { closer_ ? closer_->Close(std::move(fd_)) : fd_.Close(); }
  // For one that nobody else has: shuts it down and closes it, at once where no descriptor is left unread.
  void HangUp();

 private:
  Fd fd_;
  std::shared_ptr<Closer> closer_;
};

}  // namespace gpuman::base
