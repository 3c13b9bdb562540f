// The daemon's sockets and its claim on the state directory: one daemon for each.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "daemon/config/tcp_address.h"

namespace gpuman::daemon {

struct ListenOptions {
  std::filesystem::path path;
  mode_t mode = 0600;
  std::optional<gid_t> group;
};

// Listens there. A socket that somebody serves is refused (kAlreadyExists), one that nobody serves any more
// is replaced; anything else in its place is left alone and refused. The parent directory is made.
base::Result<base::Fd> Listen(const ListenOptions& options);

// The same for TCP. kAlreadyExists: somebody else listens there.
base::Result<base::Fd> Listen(const TcpAddress& address);

// Holds DIR/lock for as long as the descriptor lives: kAlreadyExists names the daemon that has it.
base::Result<base::Fd> ClaimDirectory(const std::filesystem::path& directory);

}  // namespace gpuman::daemon
