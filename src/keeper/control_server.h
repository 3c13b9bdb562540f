// The keeper's end of the control socket: takes commands and reports what happens. Not thread-safe; never
// blocks: the server closes the connection of a client that does not read, since that client can read the
// journal instead.
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
  // Carries out a command. `file`: the descriptor that came with it, if one did. The error says why it was
  // refused.
  using Handler = std::function<base::Result<>(const Command&, base::Fd file)>;
  using State = std::function<KeeperHello()>;

  // Listens at JOB_DIR/control (mode 0600) and replaces any file there: the caller holds the job's lock. The
  // server adds its descriptors to `epoll_fd`; on any event of theirs the caller calls Drain.
  static base::Result<ControlServer> Listen(const std::filesystem::path& job_dir, int epoll_fd);

  // Accepts and reads everything that has been sent so far. The answers wait for SendReplies, so that the
  // keeper answers only when the ordered change is on disk.
  void Drain(const State& state, const Handler& handler);

  void SendReplies();
  void Broadcast(const JournalRecord& record);

 private:
  struct Connection {
    base::Fd fd;
    bool agreed = false;  // a version was agreed on
    std::vector<Reply> replies;
  };

  ControlServer(base::Fd listener, int epoll_fd) : listener_(std::move(listener)), epoll_fd_(epoll_fd) {}
  void Accept(const State& state);
  // False: the connection has to be closed.
  bool ReadFrom(Connection& connection, const Handler& handler);
  bool Answer(Connection& connection, std::string_view packet, base::Fd file, const Handler& handler);

  base::Fd listener_;
  int epoll_fd_;
  std::vector<Connection> connections_;
};

}  // namespace gpuman::keeper
