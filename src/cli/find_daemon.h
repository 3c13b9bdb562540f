// Which daemon to talk to, and how one comes to be where there is none.
//
//   1. --socket, then GPUMAN_SOCKET: that one and no other
//   2. /run/gpuman/gpumand.sock, where somebody serves it
//   3. the user's own, where somebody serves it
//   4. neither, and gpumand is installed as a service: an error that says how to start the service
//   5. neither, and it is not: start the user's own
//
// A socket in the user's own place is trusted only when this user or root serves it, since that place may lie
// below /tmp.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/paths.h"
#include "base/result.h"

namespace gpuman::cli {

struct DaemonPlace {
  std::filesystem::path socket;
  base::Fd connection;  // to it; none: nobody serves it and a daemon should be started
  bool start() const { return !connection.ok(); }
};

// Tests give places of their own.
struct Installation {
  base::Paths system = base::SystemPaths();
  base::Paths user = base::UserPaths();
  bool has_service = false;  // a unit gpumand.service is installed
};
Installation ThisInstallation();

base::Result<DaemonPlace> FindDaemon(const std::optional<std::string>& option,
                                     const base::EnvironmentLookup& environment,
                                     const Installation& installation = ThisInstallation());

// Starts `gpumand --user`, found beside this program or in PATH, detached from terminal and session, and
// returns when it accepts connections. Its output goes to gpumand.log in the state directory. Any number of
// processes may do this at once: one starts it, the others wait for that one. kUnavailable with the last line
// of the log where it ends instead, kTimeout after 20 s. `say` is told once what was done.
base::Result<> StartUserDaemon(const std::filesystem::path& socket,
                               const base::EnvironmentLookup& environment,
                               const std::function<void(std::string_view)>& say);

// A program that belongs to gpuman: beside this one, else in PATH.
base::Result<std::filesystem::path> FindProgram(std::string_view name,
                                                const base::EnvironmentLookup& environment);

}  // namespace gpuman::cli
