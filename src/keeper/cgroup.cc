#include "keeper/cgroup.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

#include "base/file.h"

namespace gpuman::keeper {
namespace {

std::string_view NextLine(std::string_view& text) {
  const auto line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

std::string_view NextWord(std::string_view& line) {
  const auto word = line.substr(0, line.find(' '));
  line.remove_prefix(std::min(line.size(), word.size() + 1));
  return word;
}

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string Unescape(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) &&
        octal(text[i + 3])) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

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
    const auto line = NextLine(rest);
    pid_t pid = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), pid).ec == std::errc{} && pid > 0)
      pids.push_back(pid);
  }
  for (const auto& child : Subdirectories(cgroup)) AppendPids(child, pids);
}

}  // namespace

std::optional<CgroupMount> FindCgroup2Mount(std::string_view mountinfo) {
  while (!mountinfo.empty()) {
    std::string_view line = NextLine(mountinfo);
    const auto separator = line.find(" - ");
    if (separator == std::string_view::npos) continue;
    std::string_view rest = line.substr(separator + 3);
    if (NextWord(rest) != "cgroup2") continue;
    for (int field = 0; field < 3; ++field) NextWord(line);  // mount id, parent id, device
    CgroupMount mount;
    mount.root = Unescape(NextWord(line));
    mount.mount_point = Unescape(NextWord(line));
    // A tree that was mounted outside this cgroup namespace shows nothing of it.
    if (mount.root.string().starts_with("/..")) continue;
    return mount;
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> Cgroup2Path(std::string_view proc_cgroup) {
  while (!proc_cgroup.empty()) {
    const auto line = NextLine(proc_cgroup);
    if (line.starts_with("0::/")) return std::filesystem::path(line.substr(3));
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> CgroupDirectory(const CgroupMount& mount,
                                                     const std::filesystem::path& path) {
  const auto relative = path.lexically_relative(mount.root);
  if (relative.empty() || *relative.begin() == "..") return std::nullopt;
  return (mount.mount_point / relative).lexically_normal();
}

base::Result<std::filesystem::path> OwnCgroupDirectory() {
  GPUMAN_ASSIGN(const auto mountinfo, base::ReadFile("/proc/self/mountinfo"));
  GPUMAN_ASSIGN(const auto own, base::ReadFile("/proc/self/cgroup"));
  const auto mount = FindCgroup2Mount(mountinfo);
  const auto path = Cgroup2Path(own);
  const auto directory = mount && path ? CgroupDirectory(*mount, *path) : std::nullopt;
  if (!directory) return base::Fail(base::ErrorCode::kNotSupported, "no cgroup v2 tree is mounted here");
  return *directory;
}

std::filesystem::path TopCgroupDirectory() {
  const auto mount = FindCgroup2Mount(base::ReadFile("/proc/self/mountinfo").value_or(""));
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
