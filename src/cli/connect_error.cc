#include "cli/connect_error.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

namespace gpuman::cli {
namespace {

constexpr std::string_view kUseOwn =
    "leave out --socket and GPUMAN_SOCKET to use the daemon of this machine or one of your own";

bool Foreign(const UserIdentity& owner, const UserIdentity& caller) {
  return owner.uid != caller.uid && owner.uid != 0;
}

// "root's", "ada's".
std::string Of(const UserIdentity& user) { return user.name + "'s"; }

std::string JoinGroup(const SocketFacts& facts, const UserIdentity& caller) {
  if (facts.caller_joined)
    return fmt::format(
        "you were added to the group {} after you logged in: log out and in again, or run: newgrp {}",
        facts.group, facts.group);
  return fmt::format("join the group: sudo usermod -aG {} {}, then log out and in again", facts.group,
                     caller.name);
}

std::string HowToStart(const std::filesystem::path& path, const UserIdentity& starter,
                       const UserIdentity& caller, const std::filesystem::path& system_socket) {
  if (path == system_socket)
    return "start it: sudo systemctl start gpumand; without systemd: gpumand, as root";
  if (starter.uid != caller.uid)
    return fmt::format("{} starts it with: gpumand --socket {}", starter.name, path.string());
  return fmt::format("start one there: gpumand {}--socket {}", caller.uid == 0 ? "" : "--user ",
                     path.string());
}

base::Error Missing(base::Error error, const SocketFacts& facts, const UserIdentity& caller,
                    const std::filesystem::path& system_socket) {
  if (!Foreign(facts.owner, caller)) {
    error.hint = HowToStart(facts.path, caller, caller, system_socket);
    return error;
  }
  error.message += fmt::format("; {} belongs to the user {}", facts.subject.string(), facts.owner.name);
  error.hint = kUseOwn;
  return error;
}

base::Error Refused(base::Error error, const SocketFacts& facts, const UserIdentity& caller,
                    const std::filesystem::path& system_socket) {
  if (error.message.find("overloaded") != std::string::npos) return error;
  error.message = fmt::format("no daemon serves {}: the daemon of {} that made this socket does not run",
                              facts.path.string(), facts.owner.name);
  error.hint = Foreign(facts.owner, caller)
                   ? fmt::format("ask {} to start it, or {}", facts.owner.name, kUseOwn)
                   : HowToStart(facts.path, facts.owner, caller, system_socket);
  return error;
}

base::Error Forbidden(base::Error error, const SocketFacts& facts, const UserIdentity& caller,
                      SocketKind kind, const std::filesystem::path& system_socket) {
  const bool hidden = facts.state == SocketState::kHidden;
  error.message = fmt::format(
      "you may not use {}: {} belongs to the user {}", facts.path.string(),
      hidden ? fmt::format("its directory {}", facts.subject.string()) : std::string("it"), facts.owner.name);
  if (facts.group_may)
    error.message += fmt::format(" and the group {}", facts.group);
  else
    error.message += " alone";
  if (facts.group_may)
    error.hint = JoinGroup(facts, caller);
  else if (facts.owner.uid == 0)
    error.hint = fmt::format("use sudo, or ask an administrator to open {} to a group",
                             hidden ? facts.subject.string() : facts.path.string());
  else
    error.hint = fmt::format("{}; the machine's daemon, at {}, is for members of the group gpuman", kUseOwn,
                             system_socket.string());
  if (kind == SocketKind::kSystem)
    error.message.replace(0, std::string_view("you may not use ").size(),
                          "you may not talk to the daemon of this machine at ");
  return error;
}

std::string NameOfGroup(gid_t gid) {
  group entry{};
  group* found = nullptr;
  std::vector<char> buffer(65536);
  if (::getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::to_string(gid);
  return found->gr_name;
}

// Whether the group database lists the user in the group, while this process is not in the group.
bool JoinedLater(gid_t gid, const UserIdentity& caller) {
  std::array<gid_t, 1024> now{};
  const int count = ::getgroups(static_cast<int>(now.size()), now.data());
  if (::getegid() == gid ||
      (count > 0 && std::find(now.begin(), now.begin() + count, gid) != now.begin() + count))
    return false;
  std::vector<gid_t> listed(1024);
  auto size = static_cast<int>(listed.size());
  if (::getgrouplist(caller.name.c_str(), ::getgid(), listed.data(), &size) < 0) return false;
  return std::find(listed.begin(), listed.begin() + size, gid) != listed.begin() + size;
}

void Describe(SocketFacts& facts, const struct stat& info, mode_t group_bit, const UserIdentity& caller) {
  facts.owner = UserOf(info.st_uid);
  facts.group = NameOfGroup(info.st_gid);
  facts.group_may = (info.st_mode & group_bit) != 0;
  facts.caller_joined = JoinedLater(info.st_gid, caller);
}

}  // namespace

UserIdentity UserOf(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return {uid, std::to_string(uid)};
  return {uid, found->pw_name};
}

UserIdentity ThisUser() { return UserOf(::geteuid()); }

SocketFacts ReadSocketFacts(const std::filesystem::path& path, const UserIdentity& caller) {
  SocketFacts facts;
  facts.path = path;
  facts.subject = path;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    facts.state = S_ISSOCK(info.st_mode) ? SocketState::kSocket : SocketState::kNoSocket;
    Describe(facts, info, S_IWGRP, caller);
    return facts;
  }
  facts.state = errno == EACCES ? SocketState::kHidden : SocketState::kMissing;
  // The nearest directory that this user can look at.
  facts.subject = std::filesystem::path(path.is_absolute() ? "" : "./") / path;
  while (facts.subject.has_relative_path()) {
    facts.subject = facts.subject.parent_path();
    if (::stat(facts.subject.c_str(), &info) != 0) continue;
    Describe(facts, info, S_IXGRP, caller);
    break;
  }
  return facts;
}

base::Error ExplainConnectError(base::Error error, const SocketFacts& facts, const UserIdentity& caller,
                                SocketKind kind, const std::filesystem::path& system_socket) {
  if (error.code == base::ErrorCode::kInvalidArgument) return error;
  if (facts.state == SocketState::kNoSocket) {
    error.message = fmt::format("{} is no socket, so no daemon serves it", facts.path.string());
    error.hint = fmt::format("name the socket of a gpumand, such as {}", system_socket.string());
    return error;
  }
  if (error.code == base::ErrorCode::kPermissionDenied) {
    if (kind == SocketKind::kOwn)
      if (const auto mine = CheckOwnSocket(facts, caller); !mine) return mine.error();
    return Forbidden(std::move(error), facts, caller, kind, system_socket);
  }
  if (error.code != base::ErrorCode::kUnavailable) return error;
  return facts.state == SocketState::kMissing ? Missing(std::move(error), facts, caller, system_socket)
                                              : Refused(std::move(error), facts, caller, system_socket);
}

base::Error ServedByAnother(const std::filesystem::path& path, const UserIdentity& server) {
  return {base::ErrorCode::kPermissionDenied,
          fmt::format("{} is served by the user {}, not by you or root, and is not trusted", path.string(),
                      server.name),
          "set XDG_RUNTIME_DIR to a directory of your own, or name a daemon with --socket"};
}

base::Result<> CheckOwnSocket(const SocketFacts& facts, const UserIdentity& caller) {
  if (!Foreign(facts.owner, caller)) return {};
  return base::Fail(
      base::ErrorCode::kPermissionDenied,
      fmt::format("your own daemon cannot be at {}: {} belongs to the user {}", facts.path.string(),
                  facts.subject.string(), facts.owner.name),
      fmt::format(
          "XDG_RUNTIME_DIR is {} after su or sudo: unset XDG_RUNTIME_DIR, or set it to a directory of your "
          "own such as /run/user/{}",
          Of(facts.owner), caller.uid));
}

}  // namespace gpuman::cli
