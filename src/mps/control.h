// The edge to NVIDIA's control program: starts the control daemon of a GPU, asks it, limits it, stops it.
//
// Every call blocks, runs nvidia-cuda-mps-control once or some times, and gives each of them ten seconds.
// Nothing is linked and no setting of a device is touched. Thread-safe, one call for a GPU at a time.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "mps/limits.h"
#include "mps/places.h"

namespace gpuman::mps {

struct Client {
  pid_t pid = 0;
  std::optional<uid_t> uid{};
  std::string name{};
  Limits limits{};  // its own, from its environment; what Watch has of it: those that hold for it
  bool limits_known = true;
  friend bool operator==(const Client&, const Client&) = default;
};

// One for each user, one user at a time.
struct Server {
  pid_t pid = 0;
  std::optional<uid_t> uid{};
  Limits limits{};  // of clients that come from now on
  std::vector<Client> clients{};
  friend bool operator==(const Server&, const Server&) = default;
};

class Control {
 public:
  // `table` must outlive this object. `program`: nvidia-cuda-mps-control.
  Control(std::filesystem::path program, std::filesystem::path root, const base::ProcessTable& table)
      : program_(std::move(program)), root_(std::move(root)), table_(table) {}

  // The daemon of this GPU: started, or the one that is there already, with `limits` as its defaults.
  base::Result<base::ProcessId> Start(const std::string& uuid, const Limits& limits) const;
  // Absent limits stay as they are. For servers that serve, and those to come; clients that are there keep
  // what they have.
  base::Result<> Apply(const std::string& uuid, const Limits& limits) const;
  base::Result<std::vector<Server>> Servers(const std::string& uuid) const;
  base::Result<> Terminate(const std::string& uuid, pid_t server, pid_t client) const;
  // Returns when the daemon has ended. `force`: its clients are terminated first. kTimeout: it waits for
  // some.
  base::Result<> Stop(const std::string& uuid, base::ProcessId daemon, bool force) const;

  Places PlacesFor(const std::string& uuid) const { return PlacesOf(root_, uuid); }
  const std::filesystem::path& root() const { return root_; }

 private:
  base::Result<std::string> Ask(const std::string& uuid, const std::string& command) const;
  base::Result<> Tell(const std::string& uuid, const std::string& command) const;
  base::Result<Server> ServerOf(const std::string& uuid, pid_t pid) const;
  Client ClientOf(pid_t pid) const;

  std::filesystem::path program_;
  std::filesystem::path root_;
  const base::ProcessTable& table_;
};

// The first in PATH; kNotSupported where it is in none of its folders.
base::Result<std::filesystem::path> FindControl(const std::string& search_path);

}  // namespace gpuman::mps
