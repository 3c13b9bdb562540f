#include "keeper/cgroup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "base/text.h"

namespace gpuman::keeper {
namespace {

std::vector<std::filesystem::path> Subdirectories(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored) && !it->is_symlink(ignored)) found.push_back(it->path());
  }
  return found;
}

void AppendPids(const std::filesystem::path& cgroup, std::vector<pid_t>& pids) {
  const std::string text = base::ReadFile(cgroup / "cgroup.procs").value_or("");
  std::string_view rest = text;
  while (!rest.empty()) {
    auto line = base::TakeUntil(rest, '\n');
    if (const auto pid = base::TakeNumber<pid_t>(line); pid && *pid > 0) pids.push_back(*pid);
  }
  for (const auto& child : Subdirectories(cgroup)) AppendPids(child, pids);
}

}  // namespace

base::Result<std::filesystem::path> OwnCgroupDirectory() {
  GPUMAN_ASSIGN(const auto mountinfo, base::ReadFile("/proc/self/mountinfo"));
  GPUMAN_ASSIGN(const auto own, base::ReadFile("/proc/self/cgroup"));
  const auto mount = base::FindCgroup2Mount(mountinfo);
  const auto path = base::Cgroup2Path(own);
  const auto directory = mount && path ? base::CgroupDirectory(*mount, *path) : std::nullopt;
  if (!directory) return base::Fail(base::ErrorCode::kNotSupported, "no cgroup v2 tree is mounted here");
  return *directory;
}

std::filesystem::path TopCgroupDirectory() {
  const auto mount = base::FindCgroup2Mount(base::ReadFile("/proc/self/mountinfo").value_or(""));
  return mount ? mount->mount_point : std::filesystem::path();
}

base::Result<std::filesystem::path> MakeCgroup(const std::filesystem::path& parent, const std::string& name) {
  GPUMAN_TRY(base::MakeDirectories(parent));
  const auto directory = parent / name;
  if (::mkdir(directory.c_str(), 0755) != 0)
    return base::FailSystem(errno, fmt::format("making cgroup {}", directory.string()));
  // The parent given was no cgroup: a plain directory takes no processes.
  if (::access((directory / "cgroup.procs").c_str(), W_OK) != 0) {
    ::rmdir(directory.c_str());
    return base::Fail(base::ErrorCode::kNotSupported, fmt::format("{} is no cgroup", parent.string()));
  }
  return directory;
}

std::vector<pid_t> CgroupPids(const std::filesystem::path& cgroup) {
  std::vector<pid_t> pids;
  AppendPids(cgroup, pids);
  return pids;
}

bool KillCgroup(const std::filesystem::path& cgroup) {
  return base::WriteControl(cgroup / "cgroup.kill", "1").has_value();
}

void RemoveCgroup(const std::filesystem::path& cgroup) {
  for (const auto& child : Subdirectories(cgroup)) RemoveCgroup(child);
  ::rmdir(cgroup.c_str());
}

}  // namespace gpuman::keeper
