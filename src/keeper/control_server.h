// The keeper's end of the control socket: takes commands, tells what happens. Not thread-safe; never blocks:
// a client that does not read is hung up on, since it can read the journal instead.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "keeper/protocol.h"

namespace gpuman::keeper {

class ControlServer {
 public:
  // The answer to a command: nothing, or why not.
  using Handler = std::function<base::Result<>(const Command&)>;
  using State = std::function<Hello()>;

  // Listens at JOB_DIR/control (mode 0600), replacing what lies there: the caller holds the job's lock. Its
  // descriptors are added to and taken from `epoll_fd`; any event on them means Drain.
  static base::Result<ControlServer> Listen(const std::filesystem::path& job_dir, int epoll_fd);

  // Accepts and reads everything that has been sent so far. The answers wait for SendReplies, so that one is
  // only given once what was ordered is on disk.
  void Drain(const State& state, const Handler& handler);

  void SendReplies();
  void Broadcast(const JournalRecord& record);

 private:
  struct Connection {
    base::Fd fd;
    bool agreed = false;  // on a version
    std::vector<Reply> replies;
  };

  ControlServer(base::Fd listener, int epoll_fd) : listener_(std::move(listener)), epoll_fd_(epoll_fd) {}
  void Accept(const State& state);
  // False: the connection is to be closed.
  bool ReadFrom(Connection& connection, const Handler& handler);
  bool Answer(Connection& connection, std::string_view packet, const Handler& handler);

  base::Fd listener_;
  int epoll_fd_;
  std::vector<Connection> connections_;
};

}  // namespace gpuman::keeper
