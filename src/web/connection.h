// One connection of a browser over TCP: HTTP/1.1, blocking, with limits of time and size.
//
// Not thread-safe, but for HangUp.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "web/answers.h"

namespace gpuman::web {

struct Request {
  std::string method, target;
  std::string host, origin, fetch_site, authorization;  // the headers; empty: there is none, or more than one
  std::string body;
};

struct ConnectionLimits {
  std::size_t header_bytes = 16u << 10, body_bytes = 4u << 20;
  std::chrono::milliseconds request{10'000};  // from its first byte to its last
  std::chrono::milliseconds idle{60'000};     // before its first byte
  std::chrono::milliseconds send{30'000};     // for each piece of an answer, without progress
};

class Connection {
 public:
  Connection(base::Fd socket, const ConnectionLimits& limits);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The next request. nullopt: the client has gone, is too slow, or sent what is no request within the
  // limits, and has been told so.
  std::optional<Request> Read();
  // False: the client has gone or does not read. Nothing more can be sent then.
  bool Send(int status, const Headers& headers, std::string_view body);
  // An answer in pieces, each of which is sent at once.
  bool BeginStream(int status, const Headers& headers);
  bool Write(std::string_view piece);
  bool EndStream();
  // Whether the client lets the connection be used for another request.
  bool keeps_alive() const;
  int fd() const { return socket_.get(); }
  // Ends what the connection waits for. Thread-safe.
  void HangUp() const;

 private:
  struct State;
  bool SendAll(std::string_view bytes) const;
  bool WaitFor(short events, std::chrono::milliseconds time) const;
  void Refuse(int status, std::string_view message);

  base::Fd socket_;
  ConnectionLimits limits_;
  std::unique_ptr<State> state_;
};

}  // namespace gpuman::web
