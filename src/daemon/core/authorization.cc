#include "daemon/core/authorization.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>

namespace gpuman::daemon {
namespace {

bool IsIn(const Caller& caller, const Group& group) {
  return group.id && (caller.gid == *group.id || std::find(caller.groups.begin(), caller.groups.end(),
                                                           *group.id) != caller.groups.end());
}

tl::unexpected<base::Error> Refuse(const Caller& caller, std::string_view what, std::string hint) {
  return base::Fail(base::ErrorCode::kPermissionDenied, fmt::format("user {} may not {}", caller.user, what),
                    std::move(hint));
}

}  // namespace

base::Result<> Authorize(const AccessSettings& access, const Caller& caller, api::Right right,
                         std::optional<uid_t> owner) {
  if (right == api::Right::kAnybody) return {};
  if (caller.over_tcp && (access.only_user || right != api::Right::kSee))
    return base::Fail(base::ErrorCode::kPermissionDenied,
                      "this page is for everybody: it shows the machine, and changes nothing",
                      "gpuman web serves a page that may do what you may");
  if (caller.uid == 0) return {};
  if (access.only_user) {
    if (caller.uid == *access.only_user) return {};
    return Refuse(
        caller, "use this daemon",
        fmt::format("it was started with --user and serves {} alone; without --socket and GPUMAN_SOCKET "
                    "gpuman uses this machine's daemon or one of your own",
                    UserName(*access.only_user)));
  }
  if (right == api::Right::kSee || right == api::Right::kByRequest || IsIn(caller, access.admin_group))
    return {};
  const std::string administrators = "root or a member of the group " + access.admin_group.name;
  switch (right) {
    case api::Right::kSubmit:
      if (IsIn(caller, access.submit_group)) return {};
      return Refuse(caller, "run jobs",
                    access.submit_group.id
                        ? fmt::format("an administrator adds users with: usermod -aG {} {}",
                                      access.submit_group.name, caller.user)
                        : fmt::format("there is no group '{}' on this machine: an administrator makes it, or "
                                      "sets access.submit_group",
                                      access.submit_group.name));
    case api::Right::kControlJob:
      if (owner && *owner == caller.uid) return {};
      return Refuse(caller, "change another user's job", "its owner, " + administrators + " may");
    case api::Right::kReadLog:
      if (owner && *owner == caller.uid) return {};
      return Refuse(caller, "read another user's log", "its owner, " + administrators + " may");
    default:
      return Refuse(caller,
                    "change what is for all users (devices, sharing, quotas, reservations, the queue)",
                    administrators + " may");
  }
}

std::string UserName(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return std::to_string(uid);
  return found->pw_name;
}

gid_t PrimaryGroupOf(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  const bool known = ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found;
  return known ? found->pw_gid : http::kNobody;
}

Caller CallerOf(const http::Peer& peer) {
  Caller caller{peer.uid, peer.gid, {peer.gid}, UserName(peer.uid)};
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (::getgrouplist(caller.user.c_str(), peer.gid, groups.data(), &count) < 0) {
    groups.resize(static_cast<std::size_t>(count));
    if (::getgrouplist(caller.user.c_str(), peer.gid, groups.data(), &count) < 0) return caller;
  }
  groups.resize(static_cast<std::size_t>(count));
  caller.groups = std::move(groups);
  return caller;
}

Group LookUpGroup(const std::string& name) {
  group entry{};
  group* found = nullptr;
  std::vector<char> buffer(65536);
  if (::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found) return {name};
  return {name, entry.gr_gid};
}

}  // namespace gpuman::daemon
