// GPUs that share a tenant take turns together: a job on two GPUs runs on both or on none. Pure. Internal.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "share/tenant.h"

namespace gpuman::share {

struct Domain {
  std::string name;  // its first GPU; empty: its tenants have no GPU yet
  Group tenants;     // by id
};

// All domains, in the order of names. All tenants that are on no GPU form one domain, which has nothing to
// share.
std::vector<Domain> DomainsOf(std::map<TenantId, Tenant>& tenants);

}  // namespace gpuman::share
