#include "mps/watch.h"

#include <algorithm>

namespace gpuman::mps {
namespace {

bool Has(const std::vector<Server>& servers, pid_t pid) {
  return std::any_of(servers.begin(), servers.end(), [&](const Server& server) { return server.pid == pid; });
}

// A server goes in peace for one of another user alone.
bool MadeWay(const Server& gone, const std::vector<Server>& servers) {
  return std::any_of(servers.begin(), servers.end(),
                     [&](const Server& server) { return server.uid != gone.uid; });
}

std::set<pid_t> OutsidersIn(const Look& look) {
  std::set<pid_t> outsiders(look.on_gpu.begin(), look.on_gpu.end());
  for (const auto& server : look.servers) {
    outsiders.erase(server.pid);
    for (const auto& client : server.clients) outsiders.erase(client.pid);
  }
  return outsiders;
}

}  // namespace

std::vector<Notice> Watch::On(const Look& look) {
  std::vector<Notice> notices;
  for (const auto& server : servers_) {
    if (Has(look.servers, server.pid) || MadeWay(server, look.servers)) continue;
    Notice notice{Notice::Kind::kServerDied, server.pid, {}};
    for (const auto& client : server.clients) notice.clients.push_back(client.pid);
    notices.push_back(std::move(notice));
  }
  const auto outsiders = OutsidersIn(look);
  std::set<pid_t> confirmed;
  for (const pid_t pid : outsiders) {
    if (!suspects_.contains(pid)) continue;
    confirmed.insert(pid);
    if (!outside_.contains(pid)) notices.push_back({Notice::Kind::kOutside, pid, {}});
  }
  servers_ = look.servers;
  suspects_ = outsiders;
  outside_ = std::move(confirmed);
  return notices;
}

void Watch::Reset() {
  servers_.clear();
  suspects_.clear();
  outside_.clear();
}

}  // namespace gpuman::mps
