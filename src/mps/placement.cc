#include "mps/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/parse_number.h"

namespace gpuman::mps {
namespace {

constexpr std::string_view kUser = "u", kJob = "job";
constexpr double kSamePercent = 0.01;  // the control program writes two digits

// The number behind the prefix, written as gpuman writes it.
std::optional<std::int64_t> NumberIn(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const auto digits = name.substr(prefix.size());
  const auto number = base::ParseNumber<std::int64_t>(digits);
  return number && *number >= 0 && digits == std::to_string(*number) ? number : std::nullopt;
}

bool IsOurs(std::string_view server) { return NumberIn(server, kUser) || JobOf(server); }

// 100: no limit.
double Percent(const Limits& limits) { return limits.threads.value_or(100); }

// In mebibytes, as the control program is told; nullopt: no limit.
std::optional<std::uint64_t> Mebibytes(const Limits& limits, base::Bytes whole) {
  if (!limits.memory || (whole.count != 0 && *limits.memory >= whole)) return std::nullopt;
  return limits.memory->count >> 20U;
}

// The limits to set, so that `has` becomes `wants`; nullopt: none. No word takes a limit away: the
// largest one does it.
std::optional<Limits> LimitsToSet(const Limits& has, const Limits& wants, base::Bytes whole) {
  Limits to_set;
  if (std::abs(Percent(has) - Percent(wants)) >= kSamePercent) to_set.threads = Percent(wants);
  if (Mebibytes(has, whole) != Mebibytes(wants, whole)) {
    to_set.memory = Mebibytes(wants, whole) ? *wants.memory : whole;
    if (to_set.memory->count == 0) to_set.memory.reset();  // the largest one is not known
  }
  return to_set.threads || to_set.memory ? std::optional(to_set) : std::nullopt;
}

template <typename All>
auto* FindNamed(All& all, std::string_view name) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  return it == all.end() ? nullptr : &*it;
}

// What is wanted of one server.
struct WantedServer {
  uid_t uid = 0;
  Limits limits{};
  std::optional<int> time_slice{};
  std::map<std::string, Limits> namespaces{};
};

std::map<std::string, WantedServer> ServersFor(const WantedOnGpu& wanted) {
  std::map<std::string, WantedServer> servers;
  for (const auto& job : wanted.jobs) {
    const MpsNamespacePlacement placement = PlacementOf(job, wanted.limits);
    auto& server = servers[placement.server];
    server.uid = placement.uid;
    server.limits = placement.server == placement.name_space ? placement.limits : wanted.limits;
    server.time_slice = placement.time_slice;
    server.namespaces[placement.name_space] = placement.limits;
  }
  return servers;
}

void AddDeletions(const std::vector<MpsServerStatus>& there,
                  const std::map<std::string, WantedServer>& servers, std::vector<MpsChange>& changes) {
  std::vector<MpsChange> unused;
  for (const auto& server : there) {
    if (!IsOurs(server.name)) continue;
    const auto wanted = servers.find(server.name);
    for (const auto& each : server.namespaces)
      if (JobOf(each.name) && (wanted == servers.end() || !wanted->second.namespaces.contains(each.name)))
        changes.push_back({MpsChange::Kind::kDeleteNamespace, server.name, each.name});
    if (wanted == servers.end()) unused.push_back({MpsChange::Kind::kDeleteServer, server.name});
  }
  changes.insert(changes.end(), unused.begin(), unused.end());
}

}  // namespace

std::optional<base::JobId> JobOf(std::string_view name) {
  const auto number = NumberIn(name, kJob);
  return number && *number > 0 ? std::optional(base::JobId{*number}) : std::nullopt;
}

MpsNamespacePlacement PlacementOf(const ClientJob& job, const Limits& of_gpu) {
  const auto name = fmt::format("{}{}", kJob, job.id.value);
  return {job.time_slice ? name : fmt::format("{}{}", kUser, job.uid), name, job.uid,
          LowerOf(of_gpu, job.limits), job.time_slice};
}

std::vector<MpsChange> ChangesFor(const std::vector<MpsServerStatus>& there, const WantedOnGpu& wanted) {
  const auto servers = ServersFor(wanted);
  std::vector<MpsChange> changes;
  AddDeletions(there, servers, changes);
  static const MpsServerStatus kNew;
  for (const auto& [name, server] : servers) {
    const auto* has = FindNamed(there, name);
    if (!has) {
      changes.push_back({MpsChange::Kind::kCreateServer, name, {}, server.uid, {}, server.time_slice});
      has = &kNew;
    }
    if (const auto to_set = LimitsToSet(has->limits, server.limits, wanted.whole))
      changes.push_back({MpsChange::Kind::kLimitServer, name, {}, 0, *to_set});
    for (const auto& [inner, limits] : server.namespaces) {
      const auto* const known = FindNamed(has->namespaces, inner);
      if (!known) changes.push_back({MpsChange::Kind::kCreateNamespace, name, inner});
      if (const auto to_set = LimitsToSet(known ? known->limits : Limits{}, limits, wanted.whole))
        changes.push_back({MpsChange::Kind::kLimitNamespace, name, inner, 0, *to_set});
    }
  }
  return changes;
}

bool IsThere(const std::vector<MpsServerStatus>& there, const MpsNamespacePlacement& placement) {
  const auto* const server = FindNamed(there, placement.server);
  return server && (!server->uid || *server->uid == placement.uid) &&
         FindNamed(server->namespaces, placement.name_space);
}

}  // namespace gpuman::mps
