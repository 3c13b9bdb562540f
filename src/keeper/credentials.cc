#include "keeper/credentials.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace gpuman::keeper {
namespace {

std::string Readable(rlim_t value) { return value == RLIM_INFINITY ? "unlimited" : std::to_string(value); }

void ApplyLimit(const ResourceLimit& limit, std::vector<std::string>& notes) {
  const auto resource = static_cast<__rlimit_resource>(limit.resource);
  const rlimit wanted{limit.soft, limit.hard};
  if (::setrlimit(resource, &wanted) == 0) return;
  const int error = errno;
  // Raises the limit as far as is allowed.
  rlimit now{};
  if (::getrlimit(resource, &now) == 0) {
    now.rlim_max = std::min(now.rlim_max, limit.hard);
    now.rlim_cur = std::min(limit.soft, now.rlim_max);
    (void)::setrlimit(resource, &now);
  }
  notes.push_back(fmt::format("limit {} could not be set to {}:{} ({}), it is {}:{}",
                              LimitName(limit.resource), Readable(limit.soft), Readable(limit.hard),
                              std::strerror(error), Readable(now.rlim_cur), Readable(now.rlim_max)));
}

// Whether the user of this process can execute the file: 0, or an errno such as ENOENT or EACCES.
int Executable(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EACCES;
  return ::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

}  // namespace

tl::unexpected<SetupError> SetupFailed(std::string stage, int error, std::string_view doing) {
  return tl::unexpected(
      SetupError{std::move(stage), error, fmt::format("{}: {}", doing, std::strerror(error))});
}

void ApplyLimits(const Spec& spec, std::vector<std::string>& notes) {
  for (const auto& limit : spec.limits) ApplyLimit(limit, notes);
  if (spec.nice && ::setpriority(PRIO_PROCESS, 0, *spec.nice) != 0)
    notes.push_back(fmt::format("nice {} could not be set: {}", *spec.nice, std::strerror(errno)));
  if (spec.oom_score_adj)
    if (auto set = base::WriteControl("/proc/self/oom_score_adj", std::to_string(*spec.oom_score_adj)); !set)
      notes.push_back(
          fmt::format("oom_score_adj {} could not be set: {}", *spec.oom_score_adj, set.error().message));
}

SetupResult TakeIdentity(const Spec& spec) {
  if (::geteuid() != 0) {
    if (::getuid() == spec.uid && ::getgid() == spec.gid) return {};
    return SetupFailed("user", EPERM, fmt::format("becoming user {} group {}", spec.uid, spec.gid));
  }
  if (::setgroups(spec.groups.size(), spec.groups.data()) != 0)
    return SetupFailed("user", errno, fmt::format("taking on {} supplementary groups", spec.groups.size()));
  if (::setresgid(spec.gid, spec.gid, spec.gid) != 0)
    return SetupFailed("user", errno, fmt::format("becoming group {}", spec.gid));
  if (::setresuid(spec.uid, spec.uid, spec.uid) != 0)
    return SetupFailed("user", errno, fmt::format("becoming user {}", spec.uid));
  return {};
}

SetupResult EnterDirectory(const Spec& spec) {
  if (::chdir(spec.cwd.c_str()) == 0) return {};
  return SetupFailed("directory", errno, fmt::format("entering directory {}", spec.cwd.string()));
}

tl::expected<std::string, SetupError> FindCommand(const std::string& name, std::string_view path) {
  if (name.find('/') != std::string::npos) {
    if (const int error = Executable(name); error != 0)
      return SetupFailed("command", error, fmt::format("executing {}", name));
    return name;
  }
  int error = ENOENT;
  for (;;) {
    const auto directory = path.substr(0, path.find(':'));
    const std::string candidate = directory.empty() ? name : fmt::format("{}/{}", directory, name);
    const int why = Executable(candidate);
    if (why == 0) return candidate;
    if (why == EACCES) error = EACCES;
    if (directory.size() == path.size()) break;
    path.remove_prefix(directory.size() + 1);
  }
  if (error == EACCES) return SetupFailed("command", error, fmt::format("executing {}", name));
  return tl::unexpected(SetupError{"command", ENOENT, fmt::format("command not found: {}", name)});
}

std::string_view PathOf(const std::vector<std::string>& environment) {
  for (const std::string_view entry : environment)
    if (entry.starts_with("PATH=")) return entry.substr(5);
  return "/usr/local/bin:/usr/bin:/bin";
}

}  // namespace gpuman::keeper
