// MPS control daemons of this machine, and which of them is in the way of ours. Pure but for the process
// table that it is given; thread-safe.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"

namespace gpuman::mps {

// Its variables are nullopt where they are not set, or may not be read.
struct ControlProcess {
  base::ProcessId id;
  uid_t uid = 0;
  std::optional<std::string> pipe;     // CUDA_MPS_PIPE_DIRECTORY
  std::optional<std::string> devices;  // CUDA_VISIBLE_DEVICES
  friend bool operator==(const ControlProcess&, const ControlProcess&) = default;
};

// Daemons alone, not programs that speak with one.
std::vector<ControlProcess> FindControls(const base::ProcessTable& table);

// The one whose sockets are in `pipe`.
std::optional<ControlProcess> ControlAt(const std::vector<ControlProcess>& controls,
                                        const std::filesystem::path& pipe);

// One that is not below `root` and may serve this GPU: its CUDA_VISIBLE_DEVICES names it or could; only UUIDs
// of other GPUs rule that out.
std::optional<ControlProcess> RivalFor(const std::vector<ControlProcess>& controls,
                                       const std::filesystem::path& root, const std::string& uuid);

}  // namespace gpuman::mps
