// GPUs that a tenant joins take turns together: a job on two GPUs runs on both or on none. Pure. Internal.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "share/tenant.h"

namespace gpuman::share {

struct Domain {
  std::string name;  // its first GPU; empty: tenants without a GPU so far
  Group tenants;     // by id
};

// By name. Tenants that are on no GPU are one domain, which has nothing to share.
std::vector<Domain> DomainsOf(std::map<TenantId, Tenant>& tenants);

}  // namespace gpuman::share
