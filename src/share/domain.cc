#include "share/domain.h"

#include <utility>

namespace gpuman::share {
namespace {

// Union-find over the names; the smaller name stands for the set.
using Parents = std::map<std::string, std::string>;

std::string Root(Parents& parents, std::string gpu) {
  for (;;) {
    const auto it = parents.try_emplace(gpu, gpu).first;
    if (it->second == gpu) return gpu;
    gpu = it->second;
  }
}

}  // namespace

std::vector<Domain> DomainsOf(std::map<TenantId, Tenant>& tenants) {
  Parents parents;
  for (const auto& [id, tenant] : tenants) {
    for (const auto& [gpu, part] : tenant.parts) {
      std::string a = Root(parents, tenant.parts.begin()->first), b = Root(parents, gpu);
      if (b < a) std::swap(a, b);
      parents[b] = a;
    }
  }
  std::map<std::string, Group> groups;
  for (auto& [id, tenant] : tenants)
    groups[tenant.parts.empty() ? "" : Root(parents, tenant.parts.begin()->first)].push_back(&tenant);
  std::vector<Domain> domains;
  domains.reserve(groups.size());
  for (auto& [name, group] : groups) domains.push_back({name, std::move(group)});
  return domains;
}

}  // namespace gpuman::share
