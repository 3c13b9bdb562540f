#include "sim/mps/daemon.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "sim/mps/peers.h"

namespace gpuman::sim::mps {
namespace {

using Clock = std::chrono::steady_clock;

struct Limits {
  double threads = 100;
  std::map<int, std::string> memory;  // by device, as the command gave it
};

struct Server {
  pid_t pid = 0;
  uid_t uid = 0;
  Limits limits;
};

class Daemon final : public Peers {
 public:
  Daemon(std::string directory, std::string self)
      : directory_(std::move(directory)), self_(std::move(self)) {}

  int Run() {
    return Serve(
        directory_,
        [this] {
          Reap();
          if (quit_at_ && (all().empty() || Clock::now() >= *quit_at_)) over_ = true;
          return !over_;
        },
        [this] {
          for (const auto& server : servers_) ::kill(server.pid, SIGKILL);
        });
  }

 private:
  // Gives waiting clients a server: for one user at a time, as long as that user has clients.
  void OnChange() override {
    for (auto& peer : all()) {
      if (!peer.joined || peer.server != 0 || quit_at_) continue;
      const bool other = std::any_of(servers_.begin(), servers_.end(),
                                     [&](const Server& server) { return server.uid != peer.uid; });
      if (other && !EndIdle(peer.uid)) continue;
      if (servers_.empty()) StartServer(peer.uid);
      peer.server = servers_.front().pid;
      const auto& limits = servers_.front().limits;
      const auto memory = limits.memory.find(0);
      Say(peer.fd, "ok " + Percent(limits.threads, 1) + " " +
                       (memory == limits.memory.end() ? "0" : memory->second) + "\n");
    }
  }

  // Ends servers of other users that have no clients; false: one has clients.
  bool EndIdle(uid_t uid) {
    for (const auto& server : servers_)
      if (server.uid != uid && CountClients(server.pid) > 0) return false;
    std::erase_if(servers_, [&](const Server& server) {
      if (server.uid != uid) ::kill(server.pid, SIGKILL);
      return server.uid != uid;
    });
    return true;
  }

  void StartServer(uid_t uid) { servers_.push_back({StartServerProcess(self_, uid), uid, defaults_}); }

  void Reap() {
    for (pid_t pid = 0; (pid = ::waitpid(-1, nullptr, WNOHANG)) > 0;) {
      const auto erased = std::erase_if(servers_, [&](const Server& server) { return server.pid == pid; });
      if (erased > 0) Lose([&](const Peer& peer) { return peer.server == pid; }, kRpcFailure);
    }
  }

  Server* FindServer(long pid) {
    for (auto& server : servers_)
      if (server.pid == pid) return &server;
    return nullptr;
  }

  std::string Answer(const std::string& line, const Peer& /*asker*/) override {
    std::istringstream in(line);
    std::string command;
    in >> command;
    if (command == "get_server_list") {
      std::string list;
      for (const auto& server : servers_) list += std::to_string(server.pid) + "\n";
      return list;
    }
    if (command == "ps") return Processes();
    if (command == "quit") return Quit(in);
    if (command == "start_server") return StartFor(in);
    if (command.starts_with("set_default") || command.starts_with("get_default"))
      return Setting(command, "default_", defaults_, in);
    long pid = 0;
    if (!(in >> pid)) return "Unknown command: " + line + "\n";
    Server* const server = FindServer(pid);
    if (!server) return "Server " + std::to_string(pid) + " not found\n";
    if (command == "get_client_list") return Clients(*server);
    if (command == "terminate_client") return Terminate(*server, in);
    if (command == "shutdown_server") return Shutdown(*server);
    return Setting(command, "", server->limits, in);
  }

  static std::string Setting(const std::string& command, const std::string& infix, Limits& limits,
                             std::istringstream& in) {
    const auto is = [&](const char* verb, const char* what) { return command == verb + infix + what; };
    if (is("get_", "active_thread_percentage")) return Percent(limits.threads, 1) + "\n";
    int device = 0;
    std::string value;
    if (is("set_", "active_thread_percentage")) {
      double percent = 0;
      if (!(in >> percent) || percent <= 0 || percent > 100) return "Invalid percentage\n";
      limits.threads = percent;
      return Percent(percent, 1) + "\n";
    }
    if (is("get_", "device_pinned_mem_limit") && in >> device)
      return (limits.memory.contains(device) ? limits.memory[device] : "0") + "\n";
    if (is("set_", "device_pinned_mem_limit") && in >> device >> value) {
      limits.memory[device] = value;
      return "";
    }
    return "Unknown command: " + command + "\n";
  }

  std::string Clients(const Server& server) const {
    std::string list;
    for (const auto& peer : all())
      if (peer.server == server.pid) list += std::to_string(peer.pid) + "\n";
    return list;
  }

  std::string Processes() const {
    std::string table = "PID       ID    SERVER    DEVICE             NAMESPACE COMMAND\n";
    for (const auto& peer : all()) {
      if (peer.server == 0) continue;
      const char* const gpus = std::getenv("CUDA_VISIBLE_DEVICES");
      table += std::to_string(peer.pid) + " 0 " + std::to_string(peer.server) + " " +
               std::string(gpus ? gpus : "GPU").substr(0, 12) + " 0 " + NameOf(peer.pid) + "\n";
    }
    return table;
  }

  std::string Terminate(const Server& server, std::istringstream& in) {
    pid_t client = 0;
    in >> client;
    const auto gone = Lose([&](const Peer& peer) { return peer.server == server.pid && peer.pid == client; },
                           kClientTerminated);
    return gone > 0 ? "" : "Client " + std::to_string(client) + " not found\n";
  }

  std::string Shutdown(const Server& server) {
    ::kill(server.pid, SIGKILL);
    return "";
  }

  std::string StartFor(std::istringstream& in) {
    std::string word;
    uid_t uid = 0;
    if (!(in >> word >> uid) || word != "-uid") return "Usage: start_server -uid <user id>\n";
    if (servers_.empty()) StartServer(uid);
    return "";
  }

  std::string Quit(std::istringstream& in) {
    std::string word;
    long seconds = 0;
    const bool limited = (in >> word >> seconds) && word == "-t";
    quit_at_ = limited ? Clock::now() + std::chrono::seconds(seconds) : Clock::time_point::max();
    return "";
  }

  const std::string directory_, self_;
  bool over_ = false;
  std::optional<Clock::time_point> quit_at_;
  Limits defaults_;
  std::vector<Server> servers_;
};

}  // namespace

int Serve(const std::string& directory, const std::string& self) { return Daemon(directory, self).Run(); }

int BeServer() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == 1) return 1;
  for (;;) ::pause();
}

}  // namespace gpuman::sim::mps
