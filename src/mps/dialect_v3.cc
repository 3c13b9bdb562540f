#include "mps/dialect_v3.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "mps/answers.h"

namespace gpuman::mps {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kServerPatience{3};  // for a new server
constexpr std::chrono::milliseconds kRetryInterval{20};
constexpr const char* kReady = "ready";

std::string ServerFlag(const std::string& name) { return "--server=" + name; }

void AddLimits(const Limits& limits, std::vector<std::string>& words) {
  if (limits.threads) words.push_back("--active-thread-percentage=" + ThreadsWord(*limits.threads));
  if (limits.memory) words.push_back("--pinned-memory-limit=" + MemoryWord(*limits.memory));
}

MpsServerStatus* FindServer(std::vector<MpsServerStatus>& servers, const std::string& name) {
  const auto it = std::find_if(servers.begin(), servers.end(),
                               [&](const MpsServerStatus& server) { return server.name == name; });
  return it == servers.end() ? nullptr : &*it;
}

}  // namespace

Result<std::string> DialectV3::Ask(Words words) const {
  const auto what = fmt::format("{}", fmt::join(words, " "));
  words.insert(words.begin(), {"-p", "3"});
  auto answer = program_.Run(std::move(words));
  if (!answer) return Fail(std::move(answer.error()).In(what));
  if (answer->status != 0) return Fail(ErrorCode::kUnavailable, what + ": " + Shown(*answer));
  return std::move(answer->output);
}

Result<> DialectV3::Tell(const Words& words) const {
  auto answer = Ask(words);
  if (answer) return {};
  // A program that answers has refused it.
  if (answer.error().code == ErrorCode::kUnavailable) answer.error().code = ErrorCode::kConflict;
  return Fail(std::move(answer.error()));
}

Result<std::vector<MpsServerStatus>> DialectV3::BareServers() const {
  GPUMAN_ASSIGN(const auto list, Ask({"server", "list", "--format=csv"}));
  GPUMAN_ASSIGN(const auto rows, ParseServers(list));
  std::vector<MpsServerStatus> servers;
  for (const auto& row : rows) servers.push_back({row.pid, row.uid, {}, {}, row.name, {}});
  if (servers.empty()) return servers;
  GPUMAN_ASSIGN(const auto inner, Ask({"namespace", "list", "--format=csv"}));
  GPUMAN_ASSIGN(const auto namespaces, ParseNamespaces(inner));
  for (const auto& row : namespaces)
    if (auto* const server = FindServer(servers, row.server)) {
      if (row.name == kDefaultNamespace) server->limits = row.limits;
      server->namespaces.push_back({row.name, row.limits});
    }
  return servers;
}

Result<std::vector<MpsServerStatus>> DialectV3::Servers() const {
  GPUMAN_ASSIGN(auto servers, BareServers());
  if (servers.empty()) return servers;
  GPUMAN_ASSIGN(const auto list, Ask({"client", "list", "--all", "--format=csv"}));
  GPUMAN_ASSIGN(const auto clients, ParseClients(list));
  for (const auto& row : clients)
    if (auto* const server = FindServer(servers, row.server)) {
      server->clients.push_back(ClientOf(row.pid, table_));
      server->clients.back().name_space = row.name_space;
    }
  return servers;
}

Result<> DialectV3::AwaitServer(const std::string& name) const {
  bool is_listed = false;
  for (const auto until = Clock::now() + kServerPatience;; std::this_thread::sleep_for(kRetryInterval)) {
    GPUMAN_ASSIGN(const auto list, Ask({"server", "list", "--format=csv"}));
    GPUMAN_ASSIGN(const auto rows, ParseServers(list));
    const auto it = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
    const bool was_listed = std::exchange(is_listed, it != rows.end());
    if (is_listed && it->status == kReady) return {};
    if ((was_listed && !is_listed) || Clock::now() >= until) break;
  }
  // One that takes long to become ready is there: its clients wait.
  if (is_listed) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("the new server {} is not listed: it has ended", name),
              fmt::format("its log is {}", (program_.directories().logs / name / "server.log").string()));
}

Result<> DialectV3::CreateServer(const MpsChange& change) const {
  GPUMAN_TRY(Tell({"server", "create", change.server, fmt::format("--uid={}", change.uid),
                   "--allowed-devices=" + program_.uuid()}));
  auto made = AwaitServer(change.server);
  if (made && change.time_slice)
    made = Tell({"server", "set", change.server, fmt::format("--timeslice-pct={}", *change.time_slice)});
  // A server that lacks its part of the time must not serve.
  if (!made) (void)Tell({"server", "delete", change.server}).has_value();
  return made;
}

Result<> DialectV3::Make(const MpsChange& change) const {
  using Kind = MpsChange::Kind;
  switch (change.kind) {
    case Kind::kDeleteNamespace:
      return Tell({"namespace", "delete", change.name_space, ServerFlag(change.server)});
    case Kind::kDeleteServer:
      return Tell({"server", "delete", change.server});
    case Kind::kCreateServer:
      return CreateServer(change);
    case Kind::kLimitServer: {
      Words words{"server", "set", change.server};
      AddLimits(change.limits, words);
      return Tell(words);
    }
    case Kind::kCreateNamespace:
      return Tell({"namespace", "create", change.name_space, ServerFlag(change.server)});
    case Kind::kLimitNamespace: {
      Words words{"namespace", "set", change.name_space, ServerFlag(change.server)};
      AddLimits(change.limits, words);
      return Tell(words);
    }
  }
  return {};
}

Result<AppliedLimits> DialectV3::ApplyLimits(const WantedOnGpu& wanted) const {
  GPUMAN_ASSIGN(const auto before, BareServers());
  AppliedLimits applied;
  std::string failed;  // a server; what follows for it would fail for the same reason
  for (const auto& change : ChangesFor(before, wanted)) {
    if (change.server == failed) continue;
    const auto made = Make(change);
    const bool deletes =
        change.kind == MpsChange::Kind::kDeleteServer || change.kind == MpsChange::Kind::kDeleteNamespace;
    // What still has clients is not deleted, and stays for the next time.
    if (made && change.kind == MpsChange::Kind::kDeleteServer) applied.deleted.push_back(change.server);
    if (made || deletes) continue;
    const bool of_default = change.kind == MpsChange::Kind::kLimitServer;
    applied.problems.push_back({change.server,
                                of_default ? std::string(kDefaultNamespace) : change.name_space,
                                made.error().message});
    if (change.kind == MpsChange::Kind::kCreateServer) failed = change.server;
  }
  GPUMAN_ASSIGN(applied.servers, BareServers());
  return applied;
}

Result<> DialectV3::Terminate(pid_t /*server*/, pid_t client) const {
  return Tell({"client", "terminate", std::to_string(client)});
}

// The program ends all servers at once, with their clients. Without `force` a server that has clients refuses
// before that.
Result<> DialectV3::Quit(bool force) const {
  GPUMAN_ASSIGN(const auto servers, BareServers());
  for (const auto& server : servers) {
    Words words{"server", "delete", server.name};
    if (force) words.emplace_back("--force");
    auto deleted = Tell(words);
    if (!deleted && !force) return deleted;
  }
  GPUMAN_TRY(Ask({"-q"}));
  return {};
}

bool DialectV3::HasTimeSlices() const {
  const auto help = Ask({"server", "set", "help"});
  return help && NamesTimeSlices(*help);
}

}  // namespace gpuman::mps
