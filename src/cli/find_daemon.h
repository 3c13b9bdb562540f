// Finds the daemon to talk to, and starts one where there is none.
//
//   1. --socket, then GPUMAN_SOCKET: that socket and no other
//   2. /run/gpuman/gpumand.sock, where a process serves it
//   3. the user's own socket, where a process serves it
//   4. neither, and gpumand is installed as a service: an error that says how to start the service
//   5. neither, and there is no service: start the user's own daemon
//
// gpuman trusts a socket in the user's own directory only when this user or root serves it, since that
// directory may lie below /tmp.
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

struct DaemonEndpoint {
  std::filesystem::path socket;
  base::Fd connection;  // to the daemon; empty: no process serves the socket, and one should be started
  bool start() const { return !connection.ok(); }
};

// Where gpuman looks for sockets and units; tests use other directories.
struct DaemonSearchPaths {
  base::Paths system = base::SystemPaths();
  base::Paths user = base::UserPaths();
  bool has_service = false;  // a unit gpumand.service is installed
};
DaemonSearchPaths ThisInstallation();

base::Result<DaemonEndpoint> FindDaemon(const std::optional<std::string>& option,
                                        const base::EnvironmentLookup& environment,
                                        const DaemonSearchPaths& installation = ThisInstallation());

// Starts `gpumand --user`, found beside this program or in PATH, detached from terminal and session, and
// returns when the daemon accepts connections. The daemon's output goes to gpumand.log in the state
// directory. Any number of processes may call this at once: one starts the daemon, the others wait for it.
// kUnavailable with the last line of the log where the daemon ends before that, kTimeout after 20 s. If this
// process started the daemon, it calls `say` once with a sentence about that.
base::Result<> StartUserDaemon(const std::filesystem::path& socket,
                               const base::EnvironmentLookup& environment,
                               const std::function<void(std::string_view)>& say);

// Finds a program that belongs to gpuman: beside this program, else in PATH.
base::Result<std::filesystem::path> FindProgram(std::string_view name,
                                                const base::EnvironmentLookup& environment);

}  // namespace gpuman::cli
