// HTTP/1.1 on a unix stream socket, or one of TCP, on the caller's event loop.
//
// Built for clients that are slow, silent, many or hostile: every phase of a connection has a time limit,
// headers and bodies a size limit. When there are too many connections, one goes of the user who has most:
// the one that has been silent longest or, for somebody who has fewer, the newest. No user but root has more
// than three quarters of them. Requests are answered in turns: one of each user's who asks. Over TCP a user
// is who has the other end, where that is on this machine, else an address.
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

struct Limits {
  std::size_t header_bytes = 16u << 10;
  std::size_t body_bytes = 4u << 20;
  // Requests to this path may have more, where they say how much: of each user one at a time, from its header
  // until it is answered, and of so many users together, so that there is memory for them. The next one is
  // told to come again.
  std::string large_path{};
  std::size_t large_body_bytes = 0;
  std::size_t large_bodies = 4;
  // Who does not count among those; asked for such a request alone. Root goes first always.
  std::function<bool(const Peer&)> goes_first{};
  // Of bodies up to body_bytes that are read or answered, small ones left out: a user's, and all of them. The
  // next one is told to come again.
  std::size_t bodies_of_user = 16u << 20;
  std::size_t bodies_of_all = 128u << 20;
  std::size_t connections = 256;
  std::size_t unsent_bytes = 8u << 20;        // of one stream
  std::size_t unsent_of_user = 64u << 20;     // of all streams of a user: who writes more is disconnected
  std::chrono::milliseconds request{10'000};  // for a header, where it is the first, and for a body
  std::chrono::milliseconds idle{60'000};  // between requests of one connection, with the next one's header
  std::chrono::milliseconds send{30'000};  // without progress while an answer is sent
};

class Server {
 public:
  // Takes a listening socket. Begins to accept at once; `handler` is called on the loop.
  Server(boost::asio::io_context& loop, base::Fd listener, Limits limits, Handler handler);
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
