#include "mps/control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/file.h"
#include "base/run_command.h"
#include "mps/answers.h"
#include "mps/rivals.h"

namespace gpuman::mps {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{15};  // for a daemon to start, or to end
constexpr std::chrono::milliseconds kPause{20};
constexpr int kDevice = 0;  // each daemon has one GPU
// With "-t 5" the daemon ends servers whose clients do not leave, after 5 seconds.
constexpr const char *kQuit = "quit", *kQuitNow = "quit -t 5";

// The variables that are needed to find programs and libraries, and those of `directories`. Other variables
// could make the daemon a client of another daemon.
std::vector<std::string> EnvironmentOf(const Directories& directories, const std::string& uuid) {
  std::vector<std::string> environment;
  for (char** entry = ::environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    const auto name = text.substr(0, text.find('='));
    if (name == "PATH" || name == "LD_LIBRARY_PATH" || name == "HOME" || name.starts_with("GPUMAN_SIM_") ||
        name.ends_with("SAN_OPTIONS"))
      environment.emplace_back(text);
  }
  for (const auto& [name, value] : DaemonVariables(directories, uuid))
    environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Result<std::string> Control::Ask(const std::string& uuid, const std::string& command) const {
  auto answer = base::RunCommand({program_, {}, EnvironmentOf(DirectoriesFor(uuid), uuid), command + "\n"});
  if (!answer) return Fail(std::move(answer.error()).In(command));
  if (answer->status != 0)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: {}", command,
                            answer->output.empty() ? fmt::format("exit status {}", answer->status)
                                                   : FirstLine(answer->output)));
  return std::move(answer->output);
}

Result<> Control::Tell(const std::string& uuid, const std::string& command) const {
  GPUMAN_ASSIGN(const auto answer, Ask(uuid, command));
  auto done = ParseDone(answer);
  if (!done) return Fail(std::move(done.error()).In(command));
  return {};
}

Result<base::ProcessId> Control::Start(const std::string& uuid, const Limits& limits) const {
  const Directories directories = DirectoriesFor(uuid);
  GPUMAN_TRY(CheckLength(directories));
  for (const auto& directory : {directories.pipe, directories.logs})
    GPUMAN_TRY(base::MakeDirectories(directory, 0755));
  std::string said;
  if (!ControlAt(FindControls(table_), directories.pipe)) {
    GPUMAN_ASSIGN(const auto started,
                  base::RunCommand({program_, {"-d"}, EnvironmentOf(directories, uuid), {}}));
    said = FirstLine(started.output);
    if (started.status != 0)
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("nvidia-cuda-mps-control -d ended with status {}{}", started.status,
                              said.empty() ? "" : ": " + said),
                  fmt::format("its log is {}", (directories.logs / "control.log").string()));
  }
  for (const auto until = Clock::now() + kPatience; Clock::now() < until;
       std::this_thread::sleep_for(kPause)) {
    const auto control = ControlAt(FindControls(table_), directories.pipe);
    if (!control || !Ask(uuid, "get_server_list")) continue;
    if (auto applied = Apply(uuid, limits); !applied) {
      (void)Stop(uuid, control->id, true).has_value();  // a daemon without the limits must not stay
      return Fail(std::move(applied.error()));
    }
    return control->id;
  }
  return Fail(ErrorCode::kUnavailable,
              fmt::format("nvidia-cuda-mps-control was started and does not answer{}",
                          said.empty() ? "" : ": " + said),
              fmt::format("its log is {}", (directories.logs / "control.log").string()));
}

Result<> Control::Apply(const std::string& uuid, const Limits& limits) const {
  if (!limits.threads && !limits.memory) return {};
  const auto set = [&](const std::string& infix, const std::string& server) -> Result<> {
    if (limits.threads)
      GPUMAN_TRY(Tell(uuid, fmt::format("set_{}active_thread_percentage {}{}", infix, server,
                                        ThreadsWord(*limits.threads))));
    if (limits.memory)
      GPUMAN_TRY(Tell(uuid, fmt::format("set_{}device_pinned_mem_limit {}{} {}", infix, server, kDevice,
                                        MemoryWord(*limits.memory))));
    return {};
  };
  GPUMAN_TRY(set("default_", ""));
  GPUMAN_ASSIGN(const auto list, Ask(uuid, "get_server_list"));
  GPUMAN_ASSIGN(const auto servers, ParsePids(list));
  for (const pid_t server : servers) GPUMAN_TRY(set("", fmt::format("{} ", server)));
  return {};
}

Client Control::ClientOf(pid_t pid) const {
  Client client{pid, table_.Owner(pid), {}, {}};
  if (const auto process = table_.Find(pid)) client.name = process->name;
  if (const auto text = table_.Environment(pid, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"))
    client.limits.threads = ThreadsVariable(*text);
  if (const auto text = table_.Environment(pid, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"))
    client.limits.memory = MemoryVariable(*text);
  return client;
}

// A limit that an older control program does not know is absent.
Result<MpsServerStatus> Control::ServerOf(const std::string& uuid, pid_t pid) const {
  MpsServerStatus server{pid, table_.Owner(pid), {}, {}};
  GPUMAN_ASSIGN(const auto list, Ask(uuid, fmt::format("get_client_list {}", pid)));
  GPUMAN_ASSIGN(const auto clients, ParsePids(list));
  for (const pid_t client : clients) server.clients.push_back(ClientOf(client));
  GPUMAN_ASSIGN(const auto threads, Ask(uuid, fmt::format("get_active_thread_percentage {}", pid)));
  if (const auto percent = ParsePercentage(threads)) server.limits.threads = *percent;
  GPUMAN_ASSIGN(const auto memory, Ask(uuid, fmt::format("get_device_pinned_mem_limit {} {}", pid, kDevice)));
  if (const auto limit = ParseMemoryLimit(memory)) server.limits.memory = *limit;
  return server;
}

Result<std::vector<MpsServerStatus>> Control::Servers(const std::string& uuid) const {
  GPUMAN_ASSIGN(const auto list, Ask(uuid, "get_server_list"));
  GPUMAN_ASSIGN(const auto pids, ParsePids(list));
  std::vector<MpsServerStatus> servers;
  for (const pid_t pid : pids) {
    auto server = ServerOf(uuid, pid);
    // The server may have ended since it was listed.
    if (server)
      servers.push_back(std::move(*server));
    else if (table_.Find(pid))
      return Fail(std::move(server.error()));
  }
  return servers;
}

Result<> Control::Terminate(const std::string& uuid, pid_t server, pid_t client) const {
  return Tell(uuid, fmt::format("terminate_client {} {}", server, client));
}

Result<> Control::Stop(const std::string& uuid, base::ProcessId daemon, bool force) const {
  if (force) {
    GPUMAN_ASSIGN(const auto servers, Servers(uuid));
    for (const auto& server : servers)
      // The control program refuses if the client has ended meanwhile.
      for (const auto& client : server.clients) (void)Terminate(uuid, server.pid, client.pid).has_value();
  }
  GPUMAN_TRY(Ask(uuid, force ? kQuitNow : kQuit));
  for (const auto until = Clock::now() + kPatience; Clock::now() < until; std::this_thread::sleep_for(kPause))
    if (!base::IsAlive(daemon)) return {};
  return Fail(ErrorCode::kTimeout,
              fmt::format("the control daemon (pid {}) was told to end and has not yet: it waits for clients",
                          daemon.pid),
              "gpuman mps status shows them; gpuman mps stop --force ends them");
}

Result<std::filesystem::path> FindControl(const std::string& search_path) {
  std::istringstream folders(search_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const auto path = std::filesystem::path(folder) / "nvidia-cuda-mps-control";
    if (!folder.empty() && ::access(path.c_str(), X_OK) == 0) return path;
  }
  return Fail(ErrorCode::kNotSupported, "there is no nvidia-cuda-mps-control in the daemon's PATH",
              "it comes with the driver (Debian: nvidia-cuda-mps, Ubuntu: nvidia-compute-utils); or set "
              "mps.control in gpumand.toml");
}

}  // namespace gpuman::mps
