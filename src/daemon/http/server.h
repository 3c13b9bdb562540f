// HTTP/1.1 on a unix stream socket, or one of TCP, on the caller's event loop.
//
// Built for clients that are slow, silent, many or hostile: every phase of a connection has a time limit,
// headers and bodies a size limit. When there are too many connections, the server closes one of the user who
// has most: the oldest that is silent or, in favour of a user who has fewer, the newest. No user but root has
// more than three quarters of the connections. The server begins connections and answers requests in turns:
// one of each user who connects or asks. Over TCP the user is the owner of the other end, if that is on this
// machine; else each address counts as a user.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "daemon/http/exchange.h"

namespace gpuman::daemon::http {

struct ServerLimits {
  std::size_t header_bytes = 16u << 10;
  std::size_t body_bytes = 4u << 20;
  // Requests to this path may have a larger body, if their header says how large it is. Each user may have
  // one such request at a time, from its header until it is answered or, if the client goes away, until the
  // handler lets go of it, and only `large_bodies` users may have
  // one at the same time, so that there is memory for them. The server answers the next such request with
  // 503: the client has to try again.
  std::string large_path{};
  std::size_t large_body_bytes = 0;
  std::size_t large_bodies = 4;
  // Whether the peer does not count among those users. The server asks it only for such a request. Root
  // always goes first.
  std::function<bool(const Peer&)> goes_first{};
  // Bytes of bodies up to body_bytes that are read or that handlers have at a time: those of one user, and
  // those of all users. Small bodies do not count. The server answers the next request with 503: the client
  // has to try again.
  std::size_t bodies_of_user = 16u << 20;
  std::size_t bodies_of_all = 128u << 20;
  std::size_t connections = 256;
  std::size_t unsent_bytes = 8u << 20;  // of one stream
  // The bytes of all unread answers to one party. A stream that would pass it is disconnected; a whole answer
  // that would pass it is replaced by an error, unless it is small.
  std::size_t unsent_of_party = 64u << 20;
  std::chrono::milliseconds request{10'000};  // for the first header of a connection, and for each body
  std::chrono::milliseconds idle{60'000};     // between requests of a connection, including the next header
  std::chrono::milliseconds send{30'000};     // without progress while an answer is sent
};

class Server {
 public:
  // Takes a listening socket. Begins to accept at once; `handler` is called on the loop. Every answer has
  // `headers`.
  Server(boost::asio::io_context& loop, base::Fd listener, ServerLimits limits, Handler handler,
         Headers headers = {});
  // Closes the socket and every connection.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::size_t connections() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // kept alive by its pending operations
};

}  // namespace gpuman::daemon::http
