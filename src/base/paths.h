// Where gpuman's files are: the same answer for the daemon and for everybody who looks for it.
//
//   system  /etc/gpuman/gpumand.toml        /run/gpuman/gpumand.sock           /var/lib/gpuman
//   user    $XDG_CONFIG_HOME/gpuman/…       $XDG_RUNTIME_DIR/gpuman/…          $XDG_STATE_HOME/gpuman
//
// Without XDG_CONFIG_HOME and XDG_STATE_HOME: ~/.config and ~/.local/state. Without XDG_RUNTIME_DIR (su,
// cron, containers): /run/user/UID where the caller owns that, else /tmp/gpuman-UID. GPUMAN_SOCKET,
// GPUMAN_CONFIG and GPUMAN_STATE_DIR are the callers' business, since options come before them.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace gpuman::base {

struct Paths {
  std::filesystem::path config;  // a file
  std::filesystem::path socket;
  std::filesystem::path state;  // a directory
};

Paths SystemPaths();

// The value of a variable, or nullopt where it is unset or empty.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> LookUpEnvironment(const char* name);

// `home` serves where HOME is unset. `root` is put before /run/user when looking for it, for tests.
Paths UserPaths(const EnvironmentLookup& environment, uid_t uid, const std::filesystem::path& home,
                const std::filesystem::path& root = "/");
// Of the user of this process.
Paths UserPaths();

// A directory for nobody else: made with mode 0700 and its parents, or there already and then owned by this
// process's user and not writable by others. kPermissionDenied where it is somebody else's: in /tmp anybody
// may have made it before.
Result<> MakePrivateDirectory(const std::filesystem::path& path);

// A unix socket's path has at most 107 bytes (sun_path of unix(7) without its NUL).
Result<> CheckSocketPath(const std::filesystem::path& path);

}  // namespace gpuman::base
