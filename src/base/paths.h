// Where gpuman's files are: the same answer for the daemon and for every program that looks for it.
//
//   system  /etc/gpuman/gpumand.toml        /run/gpuman/gpumand.sock           /var/lib/gpuman
//   user    $XDG_CONFIG_HOME/gpuman/…       $XDG_RUNTIME_DIR/gpuman/…          $XDG_STATE_HOME/gpuman
//
// Without XDG_CONFIG_HOME and XDG_STATE_HOME: ~/.config and ~/.local/state. Without XDG_RUNTIME_DIR (su,
// cron, containers): /run/user/UID if the caller owns it, else /tmp/gpuman-UID. The callers handle
// GPUMAN_SOCKET, GPUMAN_CONFIG and GPUMAN_STATE_DIR, since options take precedence over them.
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

// The value of a variable; nullopt: it is unset or empty.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> LookUpEnvironment(const char* name);

// `home` is used if HOME is unset. `root` is put before /run/user in the search, for tests.
Paths UserPaths(const EnvironmentLookup& environment, uid_t uid, const std::filesystem::path& home,
                const std::filesystem::path& root = "/");
// For the user of this process.
Paths UserPaths();

// Makes a directory with mode 0700, and its parents. An existing directory is accepted if this process's user
// owns it and others cannot write to it. kPermissionDenied: it belongs to somebody else, since anybody can
// make a directory in /tmp.
Result<> MakePrivateDirectory(const std::filesystem::path& path);

// A unix socket's path has at most 107 bytes (sun_path of unix(7) without its NUL).
Result<> CheckSocketPath(const std::filesystem::path& path);

}  // namespace gpuman::base
