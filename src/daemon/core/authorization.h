// Who may do what. Pure.
//
// Everybody who reaches the socket sees everything but other people's logs. Owners act on their own jobs.
// Root and the administrators' group act on all jobs and on devices. Submitting takes the submitters' group.
// A daemon started with --user serves its own user, and root, alone.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "api/right.h"
#include "base/result.h"
#include "daemon/http/exchange.h"

namespace gpuman::daemon {

// As configured; without an id there is no such group on this machine.
struct Group {
  std::string name;
  std::optional<gid_t> id{};
};

struct Access {
  Group admin_group;
  Group submit_group;
  std::optional<uid_t> only_user{};  // --user
};

// A caller with every group it is in, from the user database; the peer's primary group is always one of them.
struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string user;  // name, or the number where there is none
};

// `owner`: of the job concerned; absent for what concerns none. kByRequest is checked as kSee: the rest is
// for who reads the request. The error says what is needed.
base::Result<> Authorize(const Access& access, const Caller& caller, api::Right right,
                         std::optional<uid_t> owner = {});

// From the user database; these block as long as that does.
std::string UserName(uid_t uid);  // the number where there is none
gid_t PrimaryGroupOf(uid_t uid);  // http::kNobody where there is none
Caller CallerOf(const http::Peer& peer);
Group LookUpGroup(const std::string& name);

}  // namespace gpuman::daemon
