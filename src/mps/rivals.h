// Finds the MPS control daemons of this machine, and those that conflict with gpuman's. Pure except for reads
// of the process table; thread-safe.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"

namespace gpuman::mps {

// A variable is nullopt if it is not set, or if gpuman may not read it.
struct FoundControlDaemon {
  base::ProcessId id;
  uid_t uid = 0;
  std::optional<std::string> pipe;     // CUDA_MPS_PIPE_DIRECTORY
  std::optional<std::string> devices;  // CUDA_VISIBLE_DEVICES
  int protocol = 2;                    // as it was told
  friend bool operator==(const FoundControlDaemon&, const FoundControlDaemon&) = default;
};

// Finds only daemons, not programs that talk to a daemon.
std::vector<FoundControlDaemon> FindControls(const base::ProcessTable& table);

// The daemon whose sockets are in `pipe`.
std::optional<FoundControlDaemon> ControlAt(const std::vector<FoundControlDaemon>& controls,
                                            const std::filesystem::path& pipe);

// A daemon whose directory is not below `root` and that may serve this GPU. A daemon cannot serve this GPU if
// its CUDA_VISIBLE_DEVICES has only UUIDs of other GPUs; any other daemon may serve it.
std::optional<FoundControlDaemon> RivalFor(const std::vector<FoundControlDaemon>& controls,
                                           const std::filesystem::path& root, const std::string& uuid);

}  // namespace gpuman::mps
