#include "base/cgroup.h"

#include <string>

#include "base/text.h"

namespace gpuman::base {
namespace {

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

}  // namespace

std::optional<CgroupMount> FindCgroup2Mount(std::string_view mountinfo) {
  std::optional<CgroupMount> part;
  while (!mountinfo.empty()) {
    std::string_view line = TakeUntil(mountinfo, '\n');
    const auto separator = line.find(" - ");
    if (separator == std::string_view::npos) continue;
    std::string_view rest = line.substr(separator + 3);
    if (TakeUntil(rest, ' ') != "cgroup2") continue;
    for (int field = 0; field < 3; ++field) (void)TakeUntil(line, ' ');  // mount id, parent id, device
    CgroupMount mount;
    mount.root = Unescape(TakeUntil(line, ' '));
    mount.mount_point = Unescape(TakeUntil(line, ' '));
    // A tree that was mounted outside this cgroup namespace shows no cgroup of this namespace.
    if (mount.root.string().starts_with("/..")) continue;
    if (mount.root == "/") return mount;
    if (!part) part = std::move(mount);
  }
  return part;
}

std::optional<std::filesystem::path> Cgroup2Path(std::string_view proc_cgroup) {
  while (!proc_cgroup.empty()) {
    const auto line = TakeUntil(proc_cgroup, '\n');
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

}  // namespace gpuman::base
