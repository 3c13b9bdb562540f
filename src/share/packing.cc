#include "share/packing.h"

#include <algorithm>

namespace gpuman::share {
namespace {

base::Bytes CapacityOf(const Capacities& capacities, const std::string& gpu) {
  const auto it = capacities.find(gpu);
  return it == capacities.end() ? base::Bytes{UINT64_MAX} : it->second;
}

}  // namespace

base::Bytes Immovable(const Tenant& tenant, const TenantGpuState& part) {
  // Room promised to the tenant is void when its gate is closed.
  base::Bytes stays = part.demand.pinned;
  if (tenant.out_blocked || tenant.keeps_until || tenant.parked)
    stays += part.demand.resident + part.promised;
  if (tenant.keeps_until) stays += part.paged;
  return stays;
}

base::Bytes Packing::WholeOf(const TenantGpuState& part, bool wanted) const {
  return part.demand.pinned + part.promised + part.demand.resident + part.demand.away + part.paged +
         (wanted_ && wanted ? part.Lacks() : base::Bytes{});
}

Packing::Packing(const Group& tenants, const Capacities& capacities, bool exclusive, bool wanted)
    : capacities_(capacities), exclusive_(exclusive), wanted_(wanted) {
  for (const Tenant* tenant : tenants) {
    for (const auto& [gpu, part] : tenant->parts) {
      used_[gpu] += Immovable(*tenant, part);
      if (tenant->grows && tenant->keeps_until) growing_.insert(gpu);
      occupied_[gpu] +=
          part.demand.pinned + part.promised + part.demand.resident + part.granted + tenant->PagedHere(part);
    }
  }
}

bool Packing::FitsOn(const std::string& gpu, const Tenant& tenant, const TenantGpuState& part,
                     bool wanted) const {
  if (exclusive_ && !tenant.keeps_until && !tenant.options.latency && taken_.count(gpu) > 0) return false;
  if (tenant.grows && (tenant.keeps_until ? growing_members_ : growing_).count(gpu) > 0) return false;
  return used_.at(gpu) + (WholeOf(part, wanted) - Immovable(tenant, part)) <= CapacityOf(capacities_, gpu);
}

bool Packing::Fits(const Tenant& tenant) const { return FitsWhere(tenant, tenant); }

bool Packing::FitsWhere(const Tenant& where, const Tenant& tenant, bool wanted) const {
  return std::all_of(tenant.parts.begin(), tenant.parts.end(), [&](const auto& each) {
    return where.parts.count(each.first) == 0 || FitsOn(each.first, tenant, each.second, wanted);
  });
}

bool Packing::HoldsWhere(const Tenant& where) const {
  return std::all_of(where.parts.begin(), where.parts.end(), [&](const auto& each) {
    return used_.at(each.first) <= CapacityOf(capacities_, each.first);
  });
}

void Packing::Put(const Tenant& tenant, bool wanted) {
  for (const auto& [gpu, part] : tenant.parts) {
    used_[gpu] += WholeOf(part, wanted) - Immovable(tenant, part);
    occupied_[gpu] += part.demand.away - part.granted + part.Lacks() + tenant.PagedToCome(part);
    // A tenant that does not yield takes no turn from the tenants that fit beside it; a tenant whose work
    // goes first takes it by holding them back.
    if (!tenant.keeps_until && !tenant.options.latency) taken_.insert(gpu);
    if (!tenant.grows || tenant.keeps_until) continue;
    growing_.insert(gpu);
    growing_members_.insert(gpu);
  }
}

bool Packing::FitsBesideAll(const Tenant& tenant) const {
  for (const auto& [gpu, part] : tenant.parts)
    if (occupied_.at(gpu) + (part.demand.away - part.granted) + part.Lacks() + tenant.PagedToCome(part) >
        CapacityOf(capacities_, gpu))
      return false;
  return true;
}

}  // namespace gpuman::share
