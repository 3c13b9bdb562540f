// The server of `gpuman web`: gives the page to the browser of one user, and passes the page's requests on to
// the daemon's socket as that user.
//
// It listens on a port of the loopback device. request_check.h says who may ask. One thread for each
// connection; each waits, within limits, for its browser and for the daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "web/connection.h"
#include "web/loopback.h"
#include "web/request_check.h"

namespace gpuman::web {

struct ServerOptions {
  std::filesystem::path daemon;  // its socket
  AccessPolicy owner;
  std::uint16_t port = 0;  // 0: one that is free
  std::size_t connections = 64;
  ConnectionLimits limits{};
};

class Server {
 public:
  // Binds the port. kConflict: somebody has it.
  static base::Result<Server> Open(ServerOptions options);

  std::uint16_t port() const { return listeners_.port; }
  // Serves until `stop` is readable; then ends all connections. Call once.
  void Serve(int stop);

 private:
  class Worker;

  Server(ServerOptions options, LoopbackListeners listeners);
  void Admit(base::Fd socket, std::list<Worker>& workers) const;

  ServerOptions options_;
  LoopbackListeners listeners_;
};

}  // namespace gpuman::web
