// Where the MPS of a GPU lives, and what its control daemon and its clients find in their environment. Pure;
// thread-safe.
//
//   ROOT/GPU-93f6…/pipe   the daemon's sockets    CUDA_MPS_PIPE_DIRECTORY
//   ROOT/GPU-93f6…/logs   what it writes          CUDA_MPS_LOG_DIRECTORY
//
// One control daemon for each GPU: each is started, limited and stopped alone, and what spoils one server
// spoils the clients of one GPU. A client reaches one daemon, so it works on one GPU.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gpuman::mps {

struct Places {
  std::filesystem::path pipe;
  std::filesystem::path logs;
  friend bool operator==(const Places&, const Places&) = default;
};

Places PlacesOf(const std::filesystem::path& root, const std::string& uuid);

// kInvalidArgument where the sockets in it would have names that are too long (sun_path of unix(7)).
base::Result<> CheckLength(const Places& places);

using Variables = std::vector<std::pair<std::string, std::string>>;

// Of the control daemon, which shows its clients this GPU alone.
Variables DaemonVariables(const Places& places, const std::string& uuid);
// Of a client; `threads`: percent, fewer than the server allows.
Variables ClientVariables(const Places& places, std::optional<double> threads);

}  // namespace gpuman::mps
