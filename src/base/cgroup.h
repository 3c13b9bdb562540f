// Where cgroups are, from the texts of /proc (proc(5), cgroups(7)). On hybrid machines the tree of version 2
// lies at /sys/fs/cgroup/unified, so its place is read from /proc/self/mountinfo. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace gpuman::base {

struct CgroupMount {
  std::filesystem::path mount_point;
  std::filesystem::path root;  // root of the tree as seen at the mount point; not "/" inside some containers
  friend bool operator==(const CgroupMount&, const CgroupMount&) = default;
};

// The first mount in a mountinfo text of the whole cgroup2 tree, as this cgroup namespace sees it. If there
// is none, the first mount of a part of that tree.
std::optional<CgroupMount> FindCgroup2Mount(std::string_view mountinfo);
// The path after "0::" of a /proc/PID/cgroup text.
std::optional<std::filesystem::path> Cgroup2Path(std::string_view proc_cgroup);
// The directory of the cgroup `path`; nullopt when it lies outside the mounted part.
std::optional<std::filesystem::path> CgroupDirectory(const CgroupMount& mount,
                                                     const std::filesystem::path& path);

}  // namespace gpuman::base
