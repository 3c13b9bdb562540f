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

#include "base/result.h"
#include "daemon/http/exchange.h"

namespace gpuman::daemon {

enum class Act {
  kSee,      // status, jobs, GPUs, events
  kSubmit,   // run
  kControl,  // update, restart, remove a job
  kReadLog,  // of a job
  kManage,   // devices and the daemon itself
};

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

// `owner`: of the job concerned; absent for acts that concern none. The error says what is needed.
base::Result<> Authorize(const Access& access, const Caller& caller, Act act,
                         std::optional<uid_t> owner = {});

// From the user database; these block as long as that does.
std::string UserName(uid_t uid);  // the number where there is none
gid_t PrimaryGroupOf(uid_t uid);  // http::kNobody where there is none
Caller CallerOf(const http::Peer& peer);
Group LookUpGroup(const std::string& name);

}  // namespace gpuman::daemon
