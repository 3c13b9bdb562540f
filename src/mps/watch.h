// What is to be told of a GPU's MPS: a server that died, and processes on the GPU that are not its clients,
// for which none of its limits hold. Pure; not thread-safe.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "mps/control.h"

namespace gpuman::mps {

struct Observation {
  std::vector<Server> servers;
  std::vector<pid_t> on_gpu;  // processes that the driver shows; not newer than `servers`
};

struct Notice {
  enum class Kind { kServerDied, kOutside };
  Kind kind = Kind::kOutside;
  pid_t pid = 0;
  std::vector<pid_t> clients{};  // of the server
  friend bool operator==(const Notice&, const Notice&) = default;
};

class Watch {
 public:
  // A server is told of when it was away twice running, or when its user has another: between a server that
  // makes way for another user's and that one there is a moment without any.
  std::vector<Notice> On(const Observation& observed);
  // The daemon ended or was started: what was seen of it counts no more. `knows_limits`: clients that are
  // there already came under the limits that their server has now.
  void Reset(bool knows_limits = true);

  // A client keeps what it came with: its limits here are the lower ones of its own and of those that its
  // server had when it was seen first.
  const std::vector<Server>& servers() const { return servers_; }
  // Seen outside twice running: a program that is just joining is not.
  const std::set<pid_t>& outside() const { return outside_; }

 private:
  std::vector<Server> servers_;
  std::vector<Server> gone_;  // since the last one; whom they made way for may be on the way
  bool knows_limits_ = true;  // of clients that are seen for the first time
  std::set<pid_t> suspects_;
  std::set<pid_t> outside_;
};

}  // namespace gpuman::mps
