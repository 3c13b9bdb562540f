// Decides what to report of a GPU's MPS: a server that died, and processes on the GPU that are not clients of
// MPS. The limits of MPS do not apply to such processes. Pure; not thread-safe.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "mps/status.h"

namespace gpuman::mps {

struct Observation {
  std::vector<MpsServerStatus> servers;
  std::vector<pid_t> on_gpu;  // processes that the driver lists; not newer than `servers`
};

struct MpsNotice {
  enum class Kind { kServerDied, kUnlimitedProcess };
  Kind kind = Kind::kUnlimitedProcess;
  pid_t pid = 0;
  std::vector<MpsClient> clients{};  // the server's clients, as they were seen last
  friend bool operator==(const MpsNotice&, const MpsNotice&) = default;
};

class MpsClientWatch {
 public:
  // A missing server is reported when it is missing for the second time in a row, or when its user has
  // another server. When a server ends to make way for another user's server, there is a moment without any
  // server. Servers with names do not make way, and are reported at once.
  std::vector<MpsNotice> On(const Observation& observed);
  // Call it when the control daemon ended or was started: it forgets all observations. `knows_limits`:
  // clients that exist already were started under the present limits of their server.
  void Reset(bool knows_limits = true);
  // This server was deleted on purpose.
  void Forget(const std::string& server);

  // A client keeps its first limits: for each limit, the lower of the client's own and the one that its
  // server, or its namespace there, had when the client was first seen.
  const std::vector<MpsServerStatus>& servers() const { return servers_; }
  // Processes that were seen outside MPS twice in a row, so that a program that is just becoming a client
  // does not count.
  const std::set<pid_t>& outside() const { return outside_; }

 private:
  std::vector<MpsServerStatus> servers_;
  std::vector<MpsServerStatus>
      gone_;                  // missing since the last call; another user's server may still replace them
  bool knows_limits_ = true;  // for clients that are seen for the first time
  std::set<pid_t> suspects_;
  std::set<pid_t> outside_;
};

}  // namespace gpuman::mps
