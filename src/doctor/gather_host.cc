#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/run_command.h"
#include "doctor/gather.h"

namespace gpuman::doctor {
namespace {

std::string Trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<base::Bytes> MemoryIn(const std::string& meminfo) {
  std::istringstream lines(meminfo);
  for (std::string word; lines >> word;) {
    std::uint64_t kilobytes = 0;
    if (word == "MemTotal:" && lines >> kilobytes) return base::KiB(kilobytes);
  }
  return std::nullopt;
}

std::optional<base::Bytes> SizeOf(const std::filesystem::path& path, bool free) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return std::nullopt;
  return base::Bytes{static_cast<std::uint64_t>(free ? info.f_bavail : info.f_blocks) * info.f_frsize};
}

}  // namespace

std::optional<std::string> ChosenIn(const std::string& text) {
  const auto begin = text.find('['), end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return std::nullopt;
  return text.substr(begin + 1, end - begin - 1);
}

void GatherHost(Facts& facts, const std::filesystem::path& state_dir, const std::filesystem::path& root) {
  MachineFacts& host = facts.host;
  if (const auto text = base::ReadFile(root / "proc/meminfo")) host.memory = MemoryIn(*text);
  host.shm = SizeOf(root / "dev/shm", false);
  host.state_dir = state_dir.string();
  host.state_free = SizeOf(state_dir, true);
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) host.memlock = limit.rlim_cur;
  if (const auto text = base::ReadFile(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    host.huge_pages = ChosenIn(*text);
  const auto mounts = base::ReadFile(root / "proc/self/mountinfo");
  if (!mounts) return;
  const auto cgroup = base::FindCgroup2Mount(*mounts);
  host.cgroup2 = cgroup.has_value();
  if (!cgroup) return;
  std::istringstream words(
      base::ReadFile(root / cgroup->mount_point.relative_path() / "cgroup.controllers").value_or(""));
  for (std::string word; words >> word;) host.controllers.push_back(word);
}

// Loads the library as the dynamic linker does for a job.
void GatherShim(Facts& facts, const std::vector<std::filesystem::path>& candidates,
                const std::filesystem::path& root) {
  facts.shim.system_preload = Trimmed(base::ReadFile(root / "etc/ld.so.preload").value_or(""));
  std::error_code ignored;
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const auto& path) { return std::filesystem::exists(path, ignored); });
  if (found == candidates.end()) return;
  facts.shim.path = found->string();
  const auto tried = base::RunCommand({"/bin/true", {}, {"LD_PRELOAD=" + found->string()}, {}});
  if (!tried)
    facts.shim.problem = tried.error().message;
  else if (tried->status != 0 || tried->output.find("cannot be preloaded") != std::string::npos)
    facts.shim.problem = Trimmed(tried->output.substr(0, tried->output.find('\n')));
}

}  // namespace gpuman::doctor
