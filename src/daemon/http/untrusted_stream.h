// Reads from a connection whose other end may pass descriptors along (base/untrusted_socket.h), with the
// interface that Boost.Beast needs. If the other end passes a descriptor, reading ends with EBADMSG.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cerrno>
#include <utility>

#include "base/untrusted_socket.h"

namespace gpuman::daemon::http {

// A unix socket, or one of TCP.
using Protocol = boost::asio::generic::stream_protocol;
using Socket = Protocol::socket;

// Lives on the socket's event loop; the handlers of its operations keep it alive. One read at a time.
class UntrustedStream {
 public:
  using executor_type = Socket::executor_type;
  explicit UntrustedStream(Socket socket) : socket_(std::move(socket)) {
    base::PrepareUntrusted(socket_.native_handle());
  }

  executor_type get_executor() { return socket_.get_executor(); }
  // The caller uses it for all but reading and closing.
  Socket& socket() { return socket_; }

  // `done(error_code, bytes)`.
  template <typename Buffers, typename Done>
  void async_read_some(const Buffers& buffers, Done done) {
    const boost::asio::mutable_buffer room = *boost::asio::buffer_sequence_begin(buffers);
    socket_.async_wait(Socket::wait_read, [this, room,
                                           done = std::move(done)](boost::system::error_code error) mutable {
      const ssize_t got = error ? 0 : base::ReceiveData(socket_.native_handle(), room.data(), room.size());
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return async_read_some(room, std::move(done));
      if (got < 0) error.assign(errno, boost::system::system_category());
      if (!error && got == 0 && room.size() != 0) error = boost::asio::error::eof;
      done(error, error ? std::size_t{0} : static_cast<std::size_t>(got));
    });
  }

  // Ends pending operations. The caller owns the descriptor from then on.
  base::Fd Release() {
    boost::system::error_code ignored;
    return base::Fd(socket_.is_open() ? socket_.release(ignored) : -1);
  }

 private:
  Socket socket_;
};

}  // namespace gpuman::daemon::http
