// Connections of unix sockets whose other end may be any process, which may pass descriptors along
// (SCM_RIGHTS). Closing such a descriptor can take as long as its owner chooses (closer.h). So these
// functions take data off such a connection only when they know that no descriptors come with the data, and
// they close the connection where the close delays no other work.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "base/closer.h"
#include "base/fd.h"

namespace gpuman::base {

// For a connection that was just accepted. Keeps out-of-band data in order (SO_OOBINLINE): the kernel
// otherwise throws it away unseen, together with its descriptors.
void PrepareUntrusted(int socket);

// Like recv(2) with MSG_DONTWAIT. EBADMSG: the next data comes with descriptors; it stays queued.
ssize_t ReceiveData(int socket, void* data, std::size_t size);

// Owns such a connection; not thread-safe. The closer closes it. The connections share the closer, since they
// may outlive the server that accepted them.
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
  // For a connection that other processes may have as well.
  void Close() { closer_ ? closer_->Close(std::move(fd_)) : fd_.Close(); }
  // For a connection that nobody else has: shuts it down and closes it, at once if no descriptor is left
  // unread.
  void HangUp();

 private:
  Fd fd_;
  std::shared_ptr<Closer> closer_;
};

}  // namespace gpuman::base
