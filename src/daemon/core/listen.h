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

// Listens at `path`. Fails with kAlreadyExists if another process serves a socket there; replaces a socket
// that no process serves any more, in one step: no client finds nothing in between, unless `path` is within
// four bytes of the longest that a socket may have. Fails as well if anything else is at `path`, and leaves
// that alone. Makes the parent directory.
base::Result<base::Fd> Listen(const ListenOptions& options);

// The same for TCP. kAlreadyExists: another process listens there.
base::Result<base::Fd> Listen(const TcpAddress& address);

// Holds DIR/lock for as long as the descriptor lives: kAlreadyExists names the daemon that has it.
base::Result<base::Fd> ClaimDirectory(const std::filesystem::path& directory);

}  // namespace gpuman::daemon
