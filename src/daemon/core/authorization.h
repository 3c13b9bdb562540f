// The rights of users. Pure.
//
// Every user who reaches the socket sees everything but other users' logs. Owners act on their own jobs. Root
// and the administrators' group act on all jobs and on devices. Only members of the submitters' group may
// submit. A daemon started with --user serves only its own user and root. Over TCP nobody knows who asks:
// such a caller sees, and has no other right.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "api/right.h"
#include "base/result.h"
#include "daemon/http/exchange.h"

namespace gpuman::daemon {

// A group as the configuration names it. Without an id: this machine has no such group.
struct Group {
  std::string name;
  std::optional<gid_t> id{};
};

struct AccessSettings {
  Group admin_group;
  Group submit_group;
  std::optional<uid_t> only_user{};  // --user
};

// A caller with all groups of the user, from the user database; the peer's primary group is always one of
// them.
struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string user;  // name, or the number of a user without a name
  bool over_tcp = false;
};

// `owner`: the owner of the job; absent where the request concerns no job. kByRequest is checked as kSee: the
// handler that reads the request checks the rest. The error says which right the caller needs.
base::Result<> Authorize(const AccessSettings& access, const Caller& caller, api::Right right,
                         std::optional<uid_t> owner = {});

// These ask the user database, and block as long as it does.
std::string UserName(uid_t uid);  // the number of a user without a name
gid_t PrimaryGroupOf(uid_t uid);  // http::kNobody for an unknown user
Caller CallerOf(const http::Peer& peer);
Group LookUpGroup(const std::string& name);

}  // namespace gpuman::daemon
