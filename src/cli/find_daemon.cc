#include "cli/find_daemon.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "api/http.h"
#include "cli/connect_error.h"
#include "cli/search_path.h"

namespace gpuman::cli {
namespace {

using base::ErrorCode;

constexpr std::array kUnitFolders{"/etc/systemd/system", "/run/systemd/system",
                                  "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
                                  "/lib/systemd/system"};

bool NobodyServes(const base::Error& error) { return error.code == ErrorCode::kUnavailable; }

base::Error NotRunning(const std::filesystem::path& socket) {
  return {ErrorCode::kUnavailable,
          fmt::format("the daemon is not running: nobody serves {}", socket.string()),
          "start it: sudo systemctl start gpumand; without systemd: gpumand, as root"};
}

base::Error Explain(base::Error error, const std::filesystem::path& socket, SocketKind kind,
                    const DaemonSearchPaths& installation) {
  const auto caller = ThisUser();
  return ExplainConnectError(std::move(error), ReadSocketFacts(socket, caller), caller, kind,
                             installation.system.socket);
}

// Connects to the user's own daemon; an empty descriptor where no process serves its socket.
base::Result<base::Fd> ConnectToOwn(const DaemonSearchPaths& installation) {
  const auto& socket = installation.user.socket;
  auto fd = api::ConnectTo(socket);
  if (!fd && NobodyServes(fd.error())) return base::Fd();
  if (!fd) return base::Fail(Explain(std::move(fd.error()), socket, SocketKind::kOwn, installation));
  const auto peer = api::PeerUser(fd->get());
  if (!peer || (*peer != ::geteuid() && *peer != 0))
    return base::Fail(ServedByAnother(socket, peer ? UserOf(*peer) : UserIdentity{0, "n/a"}));
  return fd;
}

}  // namespace

DaemonSearchPaths ThisInstallation() {
  DaemonSearchPaths installation;
  std::error_code ignored;
  for (const auto* folder : kUnitFolders)
    installation.has_service |=
        std::filesystem::exists(std::filesystem::path(folder) / "gpumand.service", ignored);
  return installation;
}

base::Result<DaemonEndpoint> FindDaemon(const std::optional<std::string>& option,
                                        const base::EnvironmentLookup& environment,
                                        const DaemonSearchPaths& installation) {
  const auto chosen = option ? option : environment("GPUMAN_SOCKET");
  if (chosen) {
    auto fd = api::ConnectTo(*chosen);
    if (fd) return DaemonEndpoint{*chosen, std::move(*fd)};
    return base::Fail(Explain(std::move(fd.error()), *chosen, SocketKind::kNamed, installation));
  }
  auto system = api::ConnectTo(installation.system.socket);
  if (system) return DaemonEndpoint{installation.system.socket, std::move(*system)};
  if (!NobodyServes(system.error()))
    return base::Fail(
        Explain(std::move(system.error()), installation.system.socket, SocketKind::kSystem, installation));

  GPUMAN_TRY(base::CheckSocketPath(installation.user.socket));
  GPUMAN_ASSIGN(base::Fd own, ConnectToOwn(installation));
  if (!own.ok() && installation.has_service) return base::Fail(NotRunning(installation.system.socket));
  if (!own.ok()) {
    const auto caller = ThisUser();
    GPUMAN_TRY(CheckOwnSocket(ReadSocketFacts(installation.user.socket, caller), caller));
  }
  return DaemonEndpoint{installation.user.socket, std::move(own)};
}

base::Result<std::filesystem::path> FindProgram(std::string_view name,
                                                const base::EnvironmentLookup& environment) {
  const auto runs = [](const std::filesystem::path& path) { return ::access(path.c_str(), X_OK) == 0; };
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (const auto beside = self.parent_path() / name; !error && runs(beside)) return beside;
  for (const auto& folder : FoldersOf(environment("PATH").value_or(std::string(kUsualPath))))
    if (const auto found = std::filesystem::path(folder) / name; !folder.empty() && runs(found)) return found;
  return base::Fail(ErrorCode::kUnavailable, fmt::format("{} is neither beside gpuman nor in PATH", name),
                    "is gpuman installed completely?");
}

}  // namespace gpuman::cli
