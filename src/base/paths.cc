#include "base/paths.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/file.h"

namespace gpuman::base {
namespace {

constexpr const char* kConfigName = "gpumand.toml";
constexpr const char* kSocketName = "gpumand.sock";

std::filesystem::path HomeOfThisUser() {
  const passwd* entry = ::getpwuid(::geteuid());
  return entry != nullptr && entry->pw_dir != nullptr ? entry->pw_dir : "/";
}

// The XDG base directory specification says that relative values are ignored.
std::optional<std::filesystem::path> AbsoluteOf(const EnvironmentLookup& environment, const char* name) {
  auto value = environment(name);
  if (!value || value->front() != '/') return std::nullopt;
  return std::filesystem::path(*value);
}

bool IsDirectoryOf(const std::filesystem::path& path, uid_t uid) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == uid;
}

}  // namespace

Paths SystemPaths() {
  return {std::filesystem::path("/etc/gpuman") / kConfigName,
          std::filesystem::path("/run/gpuman") / kSocketName, "/var/lib/gpuman"};
}

std::optional<std::string> LookUpEnvironment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Paths UserPaths(const EnvironmentLookup& environment, uid_t uid, const std::filesystem::path& home,
                const std::filesystem::path& root) {
  const auto base = AbsoluteOf(environment, "HOME").value_or(home);
  const auto config = AbsoluteOf(environment, "XDG_CONFIG_HOME").value_or(base / ".config");
  const auto state = AbsoluteOf(environment, "XDG_STATE_HOME").value_or(base / ".local/state");
  std::filesystem::path runtime;
  if (const auto given = AbsoluteOf(environment, "XDG_RUNTIME_DIR"))
    runtime = *given / "gpuman";
  else if (const auto usual = root / "run/user" / std::to_string(uid); IsDirectoryOf(usual, uid))
    runtime = usual / "gpuman";
  else
    runtime = root / fmt::format("tmp/gpuman-{}", uid);
  return {config / "gpuman" / kConfigName, runtime / kSocketName, state / "gpuman"};
}

Paths UserPaths() {
  return UserPaths(LookUpEnvironment, ::geteuid(),
                   LookUpEnvironment("HOME") ? std::filesystem::path() : HomeOfThisUser());
}

Result<> MakePrivateDirectory(const std::filesystem::path& path) {
  if (path.has_parent_path()) GPUMAN_TRY(MakeDirectories(path.parent_path()));
  if (::mkdir(path.c_str(), 0700) == 0) return {};
  if (errno != EEXIST) return FailSystem(errno, fmt::format("making directory {}", path.string()));
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0)
    return FailSystem(errno, fmt::format("looking at {}", path.string()));
  if (!S_ISDIR(info.st_mode))
    return Fail(ErrorCode::kConflict, fmt::format("{} is not a directory", path.string()));
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Fail(ErrorCode::kPermissionDenied,
                fmt::format("{} belongs to another user or is writable by others", path.string()),
                "remove it, or set XDG_RUNTIME_DIR to a directory of your own");
  return {};
}

Result<> CheckSocketPath(const std::filesystem::path& path) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.native().empty()) return Fail(ErrorCode::kInvalidArgument, "the path of the socket is empty");
  if (path.native().size() > kLongest)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the socket path '{}' has {} bytes; a socket's path has at most {}",
                            path.string(), path.native().size(), kLongest),
                "choose a shorter one with --socket or GPUMAN_SOCKET");
  return {};
}

}  // namespace gpuman::base
