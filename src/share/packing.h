// Which tenants fit together. Pure. Internal to src/share.
#pragma once

#include <map>
#include <set>
#include <string>

#include "share/tenant.h"

namespace gpuman::share {

// The capacity of each GPU, by UUID. A GPU that is not in the map has room for everything.
using Capacities = std::map<std::string, base::Bytes>;

// The part of the tenant's memory that stays on the GPU when it is not in the run set.
base::Bytes Immovable(const Tenant& tenant, const TenantGpuState& part);

// Puts a run set together. Besides the members' demands each GPU holds the memory of the others that cannot
// leave.
//
// Tenants on several GPUs that still grow do not run on the same GPU: each could take the room that another
// one needs before it comes to rest, this one on one GPU and that one on another, and none could yield then.
class Packing {
 public:
  // exclusive: no two members share a GPU, but for those whose work goes first. wanted: includes the room for
  // allocations that wait.
  Packing(const Group& tenants, const Capacities& capacities, bool exclusive, bool wanted = true);

  bool Fits(const Tenant& tenant) const;
  // As Fits, but looks only at the GPUs that `where` is on. `wanted`: includes the room that its allocations
  // wait for, if the other members' is included.
  bool FitsWhere(const Tenant& where, const Tenant& tenant, bool wanted = true) const;
  // Adds a tenant even if it does not fit: a tenant that runs is not closed without need.
  void Put(const Tenant& tenant, bool wanted = true);
  bool Add(const Tenant& tenant) {
    if (!Fits(tenant)) return false;
    Put(tenant);
    return true;
  }
  // The members fit on the GPUs that `where` is on.
  bool HoldsWhere(const Tenant& where) const;
  // The tenant fits beside everything that is on the GPUs now: no memory has to leave for it.
  bool FitsBesideAll(const Tenant& tenant) const;

 private:
  base::Bytes WholeOf(const TenantGpuState& part, bool wanted) const;
  bool FitsOn(const std::string& gpu, const Tenant& tenant, const TenantGpuState& part, bool wanted) const;

  const Capacities& capacities_;
  bool exclusive_, wanted_;
  std::map<std::string, base::Bytes> used_;      // by the members, and by memory that cannot leave
  std::map<std::string, base::Bytes> occupied_;  // by all memory on the GPU, and by what members lack
  // taken_: GPUs with a member that yields. growing_members_: GPUs with a member that grows. growing_: those,
  // and GPUs with a tenant that grows and does not yield.
  std::set<std::string> taken_, growing_members_, growing_;
};

}  // namespace gpuman::share
