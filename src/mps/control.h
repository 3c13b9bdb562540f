// The interface to NVIDIA's control program: starts a GPU's control daemon, queries it, sets its limits,
// stops it.
//
// Every call blocks, runs nvidia-cuda-mps-control one or more times, and gives each run ten seconds. No
// library is linked, and no setting of a device is changed. Thread-safe, one call for a GPU at a time.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/result.h"
#include "mps/dialect.h"
#include "mps/directories.h"
#include "mps/limits.h"
#include "mps/status.h"

namespace gpuman::mps {

class Control {
 public:
  // `table` must outlive this object. `program`: nvidia-cuda-mps-control. `protocol`: of the control daemons
  // (dialect.h).
  Control(std::filesystem::path program, std::filesystem::path root, const base::ProcessTable& table,
          int protocol = 2)
      : program_(std::move(program)), root_(std::move(root)), table_(table), protocol_(protocol) {}

  // Starts the control daemon of this GPU, or takes the one that runs, and sets `limits` as its defaults, as
  // far as the protocol has them.
  base::Result<base::ProcessId> Start(const std::string& uuid, const Limits& limits) const;
  base::Result<AppliedLimits> ApplyLimits(const std::string& uuid, const WantedOnGpu& wanted) const;
  base::Result<std::vector<MpsServerStatus>> Servers(const std::string& uuid) const;
  base::Result<> Terminate(const std::string& uuid, pid_t server, pid_t client) const;
  // Returns when the daemon has ended. `force`: terminates its clients first. kTimeout: the daemon waits for
  // clients.
  base::Result<> Stop(const std::string& uuid, base::ProcessId daemon, bool force) const;
  bool HasTimeSlices(const std::string& uuid) const;

  Directories DirectoriesFor(const std::string& uuid) const { return DirectoriesOf(root_, uuid); }
  const std::filesystem::path& root() const { return root_; }

 private:
  ControlProgram ProgramFor(const std::string& uuid) const;
  std::unique_ptr<Dialect> Speak(const std::string& uuid) const;

  std::filesystem::path program_;
  std::filesystem::path root_;
  const base::ProcessTable& table_;
  int protocol_;
};

// The newest protocol that the program speaks, 2 or 3: it is asked for its help. Blocks, at most ten seconds.
int AskProtocol(const std::filesystem::path& program);

// Finds the first nvidia-cuda-mps-control in `search_path` (PATH). kNotSupported: there is none.
base::Result<std::filesystem::path> FindControl(const std::string& search_path);

}  // namespace gpuman::mps
