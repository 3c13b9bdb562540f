// The simulated MPS control daemon by protocol 3, as NVIDIA documents it for drivers from 615 on. It was not
// compared with the real one.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "sim/mps/daemon.h"
#include "sim/mps/peers.h"
#include "sim/mps/words.h"

namespace gpuman::sim::mps {
namespace {

constexpr const char* kDefault = "default";

struct Limits {
  double threads = 100;
  std::string memory = "0";
  std::string priority = "0";
};

struct Server {
  pid_t pid = 0;
  uid_t uid = 0;
  std::string devices;
  std::string time_slice{};
  std::map<std::string, Limits> namespaces{{kDefault, {}}};
};

// The first line says how the program is to end, the rest what it prints.
std::string Done(const std::string& text = "") { return "0\n" + text; }
std::string Refused(const std::string& text) { return "1\nError: " + text + "\n"; }

std::string CommandOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

class DaemonV3 final : public Peers {
 public:
  DaemonV3(std::string directory, std::string self, const Machine& machine)
      : directory_(std::move(directory)), self_(std::move(self)), machine_(machine) {}

  int Run() {
    return Serve(
        directory_,
        [this] {
          Reap();
          return !over_;
        },
        [this] {
          while (!servers_.empty()) End(servers_.begin()->first, kRpcFailure);
        });
  }

 private:
  std::string DirectoryOf(const std::string& server, const std::string& name = "") const {
    return directory_ + "/" + server + (name.empty() ? "" : "/" + name);
  }

  bool MakeDoor(const std::string& directory) {
    ::mkdir(directory.c_str(), 0755);
    ::chmod(directory.c_str(), 0755);
    return Open(directory);
  }

  void TakeDoor(const std::string& directory) {
    Close(directory);
    ::rmdir(directory.c_str());
  }

  // Each client belongs to the server and the namespace of the socket that it came through. By the daemon's
  // own socket it gets to a server of its user.
  void OnChange() override {
    std::vector<int> refused;
    for (auto& peer : all()) {
      if (!peer.joined || peer.server != 0) continue;
      const auto [server, name] = PlaceOf(peer);
      const auto it = servers_.find(server);
      if (it == servers_.end() || !it->second.namespaces.contains(name)) continue;
      if (it->second.uid != peer.uid) {
        refused.push_back(peer.fd);
        continue;
      }
      peer.server = it->second.pid;
      peer.name_space = name;
      const Limits& limits = it->second.namespaces.at(name);
      Say(peer.fd, "ok " + Percent(limits.threads, 1) + " " + limits.memory + " 3\n");
    }
    for (const int fd : refused) {
      Say(fd, "no " + std::to_string(kNotPermitted) + "\n");
      Drop(fd);
    }
  }

  std::pair<std::string, std::string> PlaceOf(const Peer& peer) {
    if (peer.door == directory_) return {ServerOfUser(peer.uid), kDefault};
    const auto place = std::filesystem::path(peer.door).lexically_relative(directory_);
    const auto parts = std::distance(place.begin(), place.end());
    return {place.begin()->string(), parts > 1 ? std::next(place.begin())->string() : kDefault};
  }

  std::string ServerOfUser(uid_t uid) {
    for (const auto& [name, server] : servers_)
      if (server.uid == uid) return name;
    std::string name = "uid_" + std::to_string(uid);
    (void)Create(name, uid, "");
    return name;
  }

  std::string NameOfServer(pid_t pid) const {
    for (const auto& [name, server] : servers_)
      if (server.pid == pid) return name;
    return {};
  }

  void Reap() {
    for (pid_t pid = 0; (pid = ::waitpid(-1, nullptr, WNOHANG)) > 0;)
      if (const auto name = NameOfServer(pid); !name.empty()) End(name, kRpcFailure);
  }

  void End(const std::string& name, int code) {
    const auto server = servers_.extract(name);
    if (server.empty()) return;
    for (const auto& [inner, limits] : server.mapped().namespaces) TakeDoor(DirectoryOf(name, inner));
    TakeDoor(DirectoryOf(name));
    ::kill(server.mapped().pid, SIGKILL);
    Lose([&](const Peer& peer) { return peer.server == server.mapped().pid; }, code);
  }

  bool KnowsDevices(const std::string& devices) const {
    const char* const own = std::getenv("CUDA_VISIBLE_DEVICES");
    std::istringstream list(devices);
    for (std::string device; std::getline(list, device, ',');) {
      const bool visible = !own || std::string(own).find(device) != std::string::npos;
      const bool exists = machine_.gpus.empty() || std::find(machine_.gpus.begin(), machine_.gpus.end(),
                                                             device) != machine_.gpus.end();
      if (device.starts_with("GPU-") && (!visible || !exists)) return false;
    }
    return true;
  }

  std::string Create(const std::string& name, uid_t uid, const std::string& devices) {
    if (!IsName(name)) return Refused("invalid server name '" + name + "'");
    if (servers_.contains(name)) return Refused("server '" + name + "' already exists");
    if (::geteuid() != 0 && uid != ::geteuid())
      return Refused("not permitted for uid " + std::to_string(uid));
    // The answer is the same, and the server ends at once: no CUDA-capable device is detected.
    if (!KnowsDevices(devices)) return Done();
    if (!MakeDoor(DirectoryOf(name)) || !MakeDoor(DirectoryOf(name, kDefault))) {
      TakeDoor(DirectoryOf(name));
      return Refused("cannot listen in " + DirectoryOf(name));
    }
    servers_[name] = {StartServerProcess(self_, uid), uid, devices};
    return Done();
  }

  std::string Answer(const std::string& line, const Peer& asker) override {
    if (line == "protocol") return "3\n";
    if (line == "quit") {
      over_ = true;
      return Done();
    }
    const Words words = Words::Of(line);
    if (words.module == "server") return ForServer(words, asker);
    if (words.module == "namespace") return ForNamespace(words);
    if (words.module == "client") return ForClient(words);
    return Refused("module '" + words.module + "' is not simulated");
  }

  std::string ForServer(const Words& words, const Peer& asker) {
    const std::string name = words.At(0);
    if (words.verb == "create") {
      const auto wrong = words.Unknown({"uid", "allowed-devices", "locality-domains"});
      if (!wrong.empty()) return Refused("unknown option --" + wrong);
      const auto uid = words.Option("uid");
      if (name.empty() && !uid) return Refused("give a name or --uid");
      const uid_t owner = uid ? static_cast<uid_t>(std::strtoul(uid->c_str(), nullptr, 10)) : asker.uid;
      return Create(name.empty() ? "uid_" + std::to_string(owner) : name, owner,
                    words.Option("allowed-devices").value_or(""));
    }
    if (words.verb == "list") return ServerList(words);
    const auto it = servers_.find(name);
    if (it == servers_.end()) return Refused("server '" + name + "' not found");
    if (words.verb == "delete") {
      if (CountClients(it->second.pid) > 0 && !words.Option("force"))
        return Refused("server '" + name + "' has active clients");
      End(name, kClientTerminated);
      return Done();
    }
    if (words.verb == "set") return SetServer(words, it->second);
    if (words.verb == "get" && words.At(1) == "timeslice-pct" && machine_.branch >= 620)
      return Done((it->second.time_slice.empty() ? "-" : it->second.time_slice) + "\n");
    if (words.verb == "get") return Field(ServerRow(name, it->second), kServerColumns, words.At(1));
    return Refused("unknown verb '" + words.verb + "'");
  }

  std::string SetServer(const Words& words, Server& server) const {
    if (const auto part = words.Option("timeslice-pct"); part && machine_.branch >= 620) {
      if (!PercentageOf(*part)) return Refused("invalid time slice '" + *part + "'");
      server.time_slice = *part;
      if (words.options.size() == 1) return Done();
    }
    return SetLimits(words, server.namespaces.at(kDefault), {"timeslice-pct"});
  }

  std::string SetLimits(const Words& words, Limits& limits, const std::vector<std::string>& more) const {
    std::vector<std::string> known{"server", "pinned-memory-limit", "active-thread-percentage",
                                   "client-priority"};
    if (machine_.branch >= 620) known.insert(known.end(), more.begin(), more.end());
    if (const auto wrong = words.Unknown(known); !wrong.empty()) return Refused("unknown option --" + wrong);
    const auto memory = words.Option("pinned-memory-limit");
    const auto threads = words.Option("active-thread-percentage");
    const auto priority = words.Option("client-priority");
    if (!memory && !threads && !priority) return Refused("at least one option is required");
    if (memory && !IsSize(*memory)) return Refused("invalid pinned memory limit '" + *memory + "'");
    if (threads && !PercentageOf(*threads)) return Refused("invalid percentage '" + *threads + "'");
    if (memory) limits.memory = *memory;
    if (threads) limits.threads = *PercentageOf(*threads);
    if (priority) limits.priority = *priority;
    return Done();
  }

  using Row = std::vector<std::string>;
  inline static const Row kServerColumns{
      "name", "uid", "pid", "status", "pipe-directory", "allowed-devices", "context-ids"};
  inline static const Row kNamespaceColumns{"name",
                                            "server",
                                            "server-status",
                                            "pinned-memory-limit",
                                            "active-thread-percentage",
                                            "client-priority",
                                            "pipe-directory"};
  inline static const Row kClientColumns{"pid", "server", "device", "namespace", "cmd"};

  Row ServerRow(const std::string& name, const Server& server) const {
    return {name,    std::to_string(server.uid), std::to_string(server.pid),
            "Ready", DirectoryOf(name),          server.devices.empty() ? "-" : server.devices,
            "-"};
  }

  Row NamespaceRow(const std::string& server, const std::string& name, const Limits& limits) const {
    return {name,
            server,
            "Ready",
            limits.memory == "0" ? "-" : limits.memory,
            Percent(limits.threads, 2),
            limits.priority,
            DirectoryOf(server, name)};
  }

  Row ClientRow(const Peer& peer) const {
    return {std::to_string(peer.pid), NameOfServer(peer.server), "0", peer.name_space, CommandOf(peer.pid)};
  }

  static std::string Field(const Row& row, const Row& columns, const std::string& field) {
    const auto it = std::find(columns.begin(), columns.end(), field);
    if (it == columns.end()) return Refused("unknown field '" + field + "'");
    return Done(row[static_cast<std::size_t>(it - columns.begin())] + "\n");
  }

  std::string ServerList(const Words& words) const {
    std::vector<Row> rows;
    for (const auto& [name, server] : servers_)
      if (words.At(0).empty() || words.At(0) == name) rows.push_back(ServerRow(name, server));
    return Done(Table(words, kServerColumns, rows));
  }

  std::string ForNamespace(const Words& words) {
    const std::string name = words.At(0);
    if (words.verb == "list") {
      std::vector<Row> rows;
      for (const auto& [server, state] : servers_)
        for (const auto& [inner, limits] : state.namespaces)
          if (words.Option("server").value_or(server) == server && (name.empty() || name == inner))
            rows.push_back(NamespaceRow(server, inner, limits));
      return Done(Table(words, kNamespaceColumns, rows));
    }
    const std::string server = words.verb == "get" ? words.At(1) : words.Option("server").value_or("");
    const auto owner = servers_.find(server);
    if (owner == servers_.end()) return Refused("server '" + server + "' not found");
    auto& namespaces = owner->second.namespaces;
    if (words.verb == "create") {
      if (!IsName(name)) return Refused("invalid namespace name '" + name + "'");
      if (namespaces.contains(name)) return Refused("namespace '" + name + "' already exists");
      if (!MakeDoor(DirectoryOf(server, name)))
        return Refused("cannot listen in " + DirectoryOf(server, name));
      namespaces[name] = {};
      return Done();
    }
    const auto it = namespaces.find(name);
    if (it == namespaces.end()) return Refused("namespace '" + name + "' not found");
    if (words.verb == "set") return SetLimits(words, it->second, {});
    if (words.verb == "get")
      return Field(NamespaceRow(server, name, it->second), kNamespaceColumns, words.At(2));
    if (words.verb != "delete") return Refused("unknown verb '" + words.verb + "'");
    const bool is_used = std::any_of(all().begin(), all().end(), [&](const Peer& peer) {
      return peer.server == owner->second.pid && peer.name_space == name;
    });
    if (name == kDefault) return Refused("the default namespace cannot be deleted");
    if (is_used && !words.Option("force")) return Refused("namespace '" + name + "' has active clients");
    TakeDoor(DirectoryOf(server, name));
    namespaces.erase(it);
    return Done();
  }

  std::string ForClient(const Words& words) {
    if (words.verb == "list") {
      std::vector<Row> rows;
      for (const auto& peer : all())
        if (peer.server != 0 &&
            words.Option("server").value_or(NameOfServer(peer.server)) == NameOfServer(peer.server))
          rows.push_back(ClientRow(peer));
      return Done(Table(words, kClientColumns, rows));
    }
    const auto pid = static_cast<pid_t>(std::strtol(words.At(0).c_str(), nullptr, 10));
    const auto is_it = [&](const Peer& peer) { return peer.server != 0 && peer.pid == pid; };
    const auto it = std::find_if(all().begin(), all().end(), is_it);
    if (it == all().end()) return Refused("client " + words.At(0) + " not found");
    if (words.verb == "get") return Field(ClientRow(*it), kClientColumns, words.At(1));
    if (words.verb != "terminate") return Refused("unknown verb '" + words.verb + "'");
    Lose(is_it, kClientTerminated);
    return Done();
  }

  const std::string directory_, self_;
  const Machine machine_;
  bool over_ = false;
  std::map<std::string, Server> servers_;
};

}  // namespace

int ServeV3(const std::string& directory, const std::string& self, const Machine& machine) {
  return DaemonV3(directory, self, machine).Run();
}

}  // namespace gpuman::sim::mps
