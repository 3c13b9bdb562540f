// Finds the MPS control daemons of this machine, and those that conflict with gpuman's. Pure but for the
// process table; thread-safe.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"

namespace gpuman::mps {

// A variable is nullopt if it is not set, or may not be read.
struct ControlProcess {
  base::ProcessId id;
  uid_t uid = 0;
  std::optional<std::string> pipe;     // CUDA_MPS_PIPE_DIRECTORY
  std::optional<std::string> devices;  // CUDA_VISIBLE_DEVICES
  friend bool operator==(const ControlProcess&, const ControlProcess&) = default;
};

// Only daemons, not programs that talk to one.
std::vector<ControlProcess> FindControls(const base::ProcessTable& table);

// The daemon whose sockets are in `pipe`.
std::optional<ControlProcess> ControlAt(const std::vector<ControlProcess>& controls,
                                        const std::filesystem::path& pipe);

// A daemon that is not below `root` and may serve this GPU. Only UUIDs of other GPUs in its
// CUDA_VISIBLE_DEVICES rule that out.
std::optional<ControlProcess> RivalFor(const std::vector<ControlProcess>& controls,
                                       const std::filesystem::path& root, const std::string& uuid);

}  // namespace gpuman::mps
