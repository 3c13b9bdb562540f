#include "mps/watch.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace gpuman::mps {
namespace {

bool Has(const std::vector<MpsServerStatus>& servers, pid_t pid) {
  return std::any_of(servers.begin(), servers.end(),
                     [&](const MpsServerStatus& server) { return server.pid == pid; });
}

// Without an error, a server ends only to make way for a server of another user.
bool MadeWay(const MpsServerStatus& gone, const std::vector<MpsServerStatus>& servers) {
  return gone.name.empty() && std::any_of(servers.begin(), servers.end(), [&](const MpsServerStatus& server) {
           return server.uid != gone.uid;
         });
}

MpsNotice Died(const MpsServerStatus& server) {
  return {MpsNotice::Kind::kServerDied, server.pid, server.clients};
}

std::set<pid_t> ForeignIn(const Observation& observed) {
  std::set<pid_t> foreign(observed.on_gpu.begin(), observed.on_gpu.end());
  for (const auto& server : observed.servers) {
    foreign.erase(server.pid);
    for (const auto& client : server.clients) foreign.erase(client.pid);
  }
  return foreign;
}

const MpsClient* FindClient(const std::vector<MpsServerStatus>& servers, pid_t server, pid_t client) {
  for (const auto& each : servers)
    for (const auto& seen : each.clients)
      if (each.pid == server && seen.pid == client) return &seen;
  return nullptr;
}

const Limits& LimitsFor(const MpsServerStatus& server, const MpsClient& client) {
  for (const auto& each : server.namespaces)
    if (client.name_space == each.name) return each.limits;
  return server.limits;
}

// A client keeps its job and the limits that applied when it was first seen: after the process has ended, no
// source shows its job.
void KeepWhatWasSeen(const std::vector<MpsServerStatus>& before, bool knows_limits,
                     std::vector<MpsServerStatus>& now) {
  for (auto& server : now)
    for (auto& client : server.clients) {
      if (const auto* const seen = FindClient(before, server.pid, client.pid)) {
        client.limits = seen->limits;
        client.limits_known = seen->limits_known;
        if (!client.job) client.job = seen->job;
        continue;
      }
      client.limits_known = knows_limits;
      client.limits = LowerOf(client.limits, LimitsFor(server, client));
    }
}

}  // namespace

std::vector<MpsNotice> MpsClientWatch::On(const Observation& observed) {
  std::vector<MpsNotice> notices;
  for (const auto& server : std::exchange(gone_, {}))
    if (!Has(observed.servers, server.pid) && !MadeWay(server, observed.servers))
      notices.push_back(Died(server));
  for (const auto& server : servers_) {
    if (Has(observed.servers, server.pid) || MadeWay(server, observed.servers)) continue;
    if (observed.servers.empty() && server.name.empty())
      gone_.push_back(server);
    else
      notices.push_back(Died(server));
  }
  const auto foreign = ForeignIn(observed);
  std::set<pid_t> confirmed;
  for (const pid_t pid : foreign) {
    if (!suspects_.contains(pid)) continue;
    confirmed.insert(pid);
    if (!outside_.contains(pid)) notices.push_back({MpsNotice::Kind::kUnlimitedProcess, pid, {}});
  }
  auto servers = observed.servers;
  KeepWhatWasSeen(servers_, knows_limits_, servers);
  servers_ = std::move(servers);
  knows_limits_ = true;
  suspects_ = foreign;
  outside_ = std::move(confirmed);
  return notices;
}

void MpsClientWatch::Forget(const std::string& server) {
  std::erase_if(servers_, [&](const MpsServerStatus& each) { return each.name == server; });
}

void MpsClientWatch::Reset(bool knows_limits) {
  knows_limits_ = knows_limits;
  servers_.clear();
  gone_.clear();
  suspects_.clear();
  outside_.clear();
}

}  // namespace gpuman::mps
