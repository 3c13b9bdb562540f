// The interface to NVIDIA's control program: starts a GPU's control daemon, queries it, sets its limits,
// stops it.
//
// Every call blocks, runs nvidia-cuda-mps-control one or more times, and gives each run ten seconds. No
// library is linked, and no setting of a device is changed. Thread-safe, one call for a GPU at a time.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/process.h"
#include "base/result.h"
#include "mps/directories.h"
#include "mps/limits.h"

namespace gpuman::mps {

struct Client {
  pid_t pid = 0;
  std::optional<uid_t> uid{};
  std::string name{};
  Limits limits{};  // from its environment; in MpsClientWatch: the limits that apply to the client
  bool limits_known = true;
  std::optional<base::JobId> job{};  // in MpsClientWatch: the client's job, as it was seen
  friend bool operator==(const Client&, const Client&) = default;
};

// An MPS server. A server serves one user; a control daemon has servers of one user at a time.
struct MpsServerStatus {
  pid_t pid = 0;
  std::optional<uid_t> uid{};
  Limits limits{};  // for new clients
  std::vector<Client> clients{};
  friend bool operator==(const MpsServerStatus&, const MpsServerStatus&) = default;
};

class Control {
 public:
  // `table` must outlive this object. `program`: nvidia-cuda-mps-control.
  Control(std::filesystem::path program, std::filesystem::path root, const base::ProcessTable& table)
      : program_(std::move(program)), root_(std::move(root)), table_(table) {}

  // Starts the control daemon of this GPU, or takes the one that runs, and sets `limits` as its defaults.
  base::Result<base::ProcessId> Start(const std::string& uuid, const Limits& limits) const;
  // Sets limits; an absent limit stays as it is. The limits apply to new clients of present and future
  // servers; present clients keep their limits.
  base::Result<> Apply(const std::string& uuid, const Limits& limits) const;
  base::Result<std::vector<MpsServerStatus>> Servers(const std::string& uuid) const;
  base::Result<> Terminate(const std::string& uuid, pid_t server, pid_t client) const;
  // Returns when the daemon has ended. `force`: terminates its clients first. kTimeout: the daemon waits for
  // clients.
  base::Result<> Stop(const std::string& uuid, base::ProcessId daemon, bool force) const;

  Directories DirectoriesFor(const std::string& uuid) const { return DirectoriesOf(root_, uuid); }
  const std::filesystem::path& root() const { return root_; }

 private:
  base::Result<std::string> Ask(const std::string& uuid, const std::string& command) const;
  base::Result<> Tell(const std::string& uuid, const std::string& command) const;
  base::Result<MpsServerStatus> ServerOf(const std::string& uuid, pid_t pid) const;
  Client ClientOf(pid_t pid) const;

  std::filesystem::path program_;
  std::filesystem::path root_;
  const base::ProcessTable& table_;
};

// Finds the first nvidia-cuda-mps-control in `search_path` (PATH). kNotSupported: there is none.
base::Result<std::filesystem::path> FindControl(const std::string& search_path);

}  // namespace gpuman::mps
