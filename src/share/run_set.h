// Who fits together. Pure. Internal to src/share.
#pragma once

#include <map>
#include <set>
#include <string>

#include "share/tenant.h"

namespace gpuman::share {

// By UUID. A GPU that is not in it has room for everything.
using Capacities = std::map<std::string, base::Bytes>;

// What of it stays on the GPU although it is not in the run set.
base::Bytes Immovable(const Tenant& tenant, const GpuPart& part);

// A run set as it is put together. Besides the members' demands each GPU holds what of the others cannot
// leave.
class Packing {
 public:
  // exclusive: no two members on one GPU. wanted: with the room for allocations that wait.
  Packing(const Group& tenants, const Capacities& capacities, bool exclusive, bool wanted = true);

  bool Fits(const Tenant& tenant) const;
  // Also where it does not fit: a tenant that runs is not closed for no one.
  void Put(const Tenant& tenant);
  bool Add(const Tenant& tenant) {
    if (!Fits(tenant)) return false;
    Put(tenant);
    return true;
  }
  // It fits beside everything that is on the GPUs now: nothing has to leave for it.
  bool FitsBesideAll(const Tenant& tenant) const;

 private:
  base::Bytes WholeOf(const GpuPart& part) const;

  const Capacities& capacities_;
  bool exclusive_, wanted_;
  std::map<std::string, base::Bytes> used_;      // by the members and what cannot leave
  std::map<std::string, base::Bytes> occupied_;  // by everything that is there, and what members miss
  std::set<std::string> taken_;
};

}  // namespace gpuman::share
