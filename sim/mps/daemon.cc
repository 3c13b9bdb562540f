#include "sim/mps/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

namespace gpuman::sim::mps {
namespace {

constexpr int kRpcFailure = 806;        // CUDA_ERROR_MPS_RPC_FAILURE
constexpr int kClientTerminated = 810;  // CUDA_ERROR_MPS_CLIENT_TERMINATED
constexpr const char* kServerName = "nvidia-cuda-mps-server";

using Clock = std::chrono::steady_clock;

// "50.0", the real daemon's format of percentages.
std::string Percent(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

struct Limits {
  double threads = 100;
  std::map<int, std::string> memory;  // by device, as the command gave it
};

struct Server {
  pid_t pid = 0;
  uid_t uid = 0;
  Limits limits;
};

struct Peer {
  int fd = -1;
  int process = -1;  // pidfd
  pid_t pid = 0;
  uid_t uid = 0;
  std::string line;
  bool joined = false;
  pid_t server = 0;  // 0: it waits for a server
};

class Daemon {
 public:
  Daemon(std::string directory, std::string self)
      : directory_(std::move(directory)), self_(std::move(self)) {}

  int Run() {
    if (!Listen()) return 1;
    ::signal(SIGPIPE, SIG_IGN);
    while (!over_) Turn();
    for (const auto& server : servers_) ::kill(server.pid, SIGKILL);
    for (const char* name : {"control", "nvidia-cuda-mps-control.pid"})
      ::unlink((directory_ + "/" + name).c_str());
    return 0;
  }

 private:
  bool Listen() {
    const std::string path = directory_ + "/control";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return false;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    ::unlink(path.c_str());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
    ::chmod(path.c_str(), 0666);
    std::ofstream(directory_ + "/nvidia-cuda-mps-control.pid") << ::getpid() << "\n";
    return ::listen(listener_, 64) == 0;
  }

  void Turn() {
    std::vector<pollfd> wait{{listener_, POLLIN, 0}};
    for (const auto& peer : peers_) {
      wait.push_back({peer.fd, POLLIN, 0});
      wait.push_back({peer.process, POLLIN, 0});
    }
    ::poll(wait.data(), wait.size(), 50);
    if ((wait[0].revents & POLLIN) != 0) Accept();
    // By descriptor, since handling one peer may change the list.
    for (std::size_t i = 1; i < wait.size(); i += 2)
      if (wait[i].revents != 0 || wait[i + 1].revents != 0) Hear(wait[i].fd, wait[i + 1].revents != 0);
    Reap();
    if (quit_at_ && (peers_.empty() || Clock::now() >= *quit_at_)) over_ = true;
  }

  void Accept() {
    Peer peer;
    peer.fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer.fd < 0) return;
    ucred who{};
    socklen_t size = sizeof who;
    ::getsockopt(peer.fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    peer.pid = who.pid;
    peer.uid = who.uid;
    peer.process = static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0));
    peers_.push_back(std::move(peer));
  }

  Peer* Find(int fd) {
    const auto it =
        std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.fd == fd; });
    return it == peers_.end() ? nullptr : &*it;
  }

  void Drop(int fd) {
    const auto it =
        std::find_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.fd == fd; });
    if (it == peers_.end()) return;
    ::close(it->fd);
    if (it->process >= 0) ::close(it->process);
    peers_.erase(it);
    Serve();
  }

  void Hear(int fd, bool ended) {
    Peer* const peer = Find(fd);
    if (!peer) return;
    std::array<char, 512> buffer{};
    const auto got = ::read(fd, buffer.data(), buffer.size());
    if (got > 0) peer->line.append(buffer.data(), static_cast<std::size_t>(got));
    const auto end = peer->line.find('\n');
    if (!peer->joined && end != std::string::npos) {
      const std::string line = peer->line.substr(0, end);
      if (line != "join") {
        Say(fd, Answer(line));
        return Drop(fd);
      }
      peer->joined = true;
      return Serve();
    }
    if (got == 0 || (ended && got < 0)) Drop(fd);
  }

  static void Say(int fd, const std::string& text) {
    (void)::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  }

  // Gives waiting clients a server: for one user at a time, as long as that user has clients.
  void Serve() {
    for (auto& peer : peers_) {
      if (!peer.joined || peer.server != 0 || quit_at_) continue;
      const bool other = std::any_of(servers_.begin(), servers_.end(),
                                     [&](const Server& server) { return server.uid != peer.uid; });
      if (other && !EndIdle(peer.uid)) continue;
      if (servers_.empty()) StartServer(peer.uid);
      peer.server = servers_.front().pid;
      const auto& limits = servers_.front().limits;
      const auto memory = limits.memory.find(0);
      Say(peer.fd, "ok " + Percent(limits.threads) + " " +
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

  std::size_t CountClients(pid_t server) const {
    return static_cast<std::size_t>(
        std::count_if(peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.server == server; }));
  }

  void StartServer(uid_t uid) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (::geteuid() == 0 && uid != 0 && ::setresuid(uid, uid, uid) != 0) ::_exit(1);
      ::execl(self_.c_str(), kServerName, nullptr);
      ::_exit(127);
    }
    servers_.push_back({pid, uid, defaults_});
  }

  void Reap() {
    for (pid_t pid = 0; (pid = ::waitpid(-1, nullptr, WNOHANG)) > 0;) {
      const auto erased = std::erase_if(servers_, [&](const Server& server) { return server.pid == pid; });
      if (erased > 0) Lose([&](const Peer& peer) { return peer.server == pid; }, kRpcFailure);
    }
  }

  template <typename Which>
  std::size_t Lose(Which which, int code) {
    std::vector<int> gone;
    for (const auto& peer : peers_)
      if (which(peer)) gone.push_back(peer.fd);
    for (const int fd : gone) {
      Say(fd, "gone " + std::to_string(code) + "\n");
      Drop(fd);
    }
    return gone.size();
  }

  Server* FindServer(long pid) {
    for (auto& server : servers_)
      if (server.pid == pid) return &server;
    return nullptr;
  }

  std::string Answer(const std::string& line) {
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
    if (is("get_", "active_thread_percentage")) return Percent(limits.threads) + "\n";
    int device = 0;
    std::string value;
    if (is("set_", "active_thread_percentage")) {
      double percent = 0;
      if (!(in >> percent) || percent <= 0 || percent > 100) return "Invalid percentage\n";
      limits.threads = percent;
      return Percent(percent) + "\n";
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
    for (const auto& peer : peers_)
      if (peer.server == server.pid) list += std::to_string(peer.pid) + "\n";
    return list;
  }

  std::string Processes() const {
    std::string table = "PID       ID    SERVER    DEVICE             NAMESPACE COMMAND\n";
    for (const auto& peer : peers_) {
      if (peer.server == 0) continue;
      std::ifstream file("/proc/" + std::to_string(peer.pid) + "/comm");
      std::string name;
      std::getline(file, name);
      const char* const gpus = std::getenv("CUDA_VISIBLE_DEVICES");
      table += std::to_string(peer.pid) + " 0 " + std::to_string(peer.server) + " " +
               std::string(gpus ? gpus : "GPU").substr(0, 12) + " 0 " + name + "\n";
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
  int listener_ = -1;
  bool over_ = false;
  std::optional<Clock::time_point> quit_at_;
  Limits defaults_;
  std::vector<Server> servers_;
  std::vector<Peer> peers_;
};

}  // namespace

int Serve(const std::string& directory, const std::string& self) { return Daemon(directory, self).Run(); }

int BeServer() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() == 1) return 1;
  for (;;) ::pause();
}

}  // namespace gpuman::sim::mps
