// The directories of a GPU's MPS, and the variables for its control daemon and its clients. Pure;
// thread-safe.
//
//   ROOT/GPU-93f6…/pipe   the daemon's sockets    CUDA_MPS_PIPE_DIRECTORY
//   ROOT/GPU-93f6…/logs   what it writes          CUDA_MPS_LOG_DIRECTORY
//
// Each GPU has its own control daemon, and gpuman starts, limits and stops each one separately. So an error
// of one server affects only the clients of one GPU. A client reaches one daemon, so it works on one GPU.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gpuman::mps {

struct Directories {
  std::filesystem::path pipe;
  std::filesystem::path logs;
  friend bool operator==(const Directories&, const Directories&) = default;
};

Directories DirectoriesOf(const std::filesystem::path& root, const std::string& uuid);

// kInvalidArgument: the names of the daemon's sockets would be too long (sun_path of unix(7)).
base::Result<> CheckLength(const Directories& directories);

using Variables = std::vector<std::pair<std::string, std::string>>;

// For the control daemon, which shows only this GPU to its clients.
Variables DaemonVariables(const Directories& directories, const std::string& uuid);
// For a client. `threads`: percent, for a client that gets less than the server permits.
Variables ClientVariables(const Directories& directories, std::optional<double> threads);

// The directory whose socket leads to this namespace of this server (protocol 3), with the GPU's logs.
// kInvalidArgument: the socket's name would be too long.
base::Result<Directories> DirectoriesIn(const Directories& of_gpu, const std::string& server,
                                        const std::string& name_space);

}  // namespace gpuman::mps
