// The job's own cgroup v2 directory, where the machine has such a tree and lets us make one. No controller is
// needed: it is there to list and kill everything in it. On hybrid machines the tree lies at
// /sys/fs/cgroup/unified, so the place is read from /proc/self/mountinfo (proc(5), cgroups(7)).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuman::keeper {

struct CgroupMount {
  std::filesystem::path mount_point;
  std::filesystem::path root;  // of the tree, as seen at the mount point; not "/" inside some containers
  friend bool operator==(const CgroupMount&, const CgroupMount&) = default;
};

// The first cgroup2 line of a mountinfo text. Pure.
std::optional<CgroupMount> FindCgroup2Mount(std::string_view mountinfo);
// The path after "0::" of a /proc/PID/cgroup text. Pure.
std::optional<std::filesystem::path> Cgroup2Path(std::string_view proc_cgroup);
// The directory of the cgroup `path`; nullopt when it lies outside what is mounted. Pure.
std::optional<std::filesystem::path> CgroupDirectory(const CgroupMount& mount,
                                                     const std::filesystem::path& path);

// The directory of this process's own cgroup; kNotSupported without cgroup v2.
base::Result<std::filesystem::path> OwnCgroupDirectory();
// Where the tree is mounted; empty without cgroup v2.
std::filesystem::path TopCgroupDirectory();

// Makes `parent`/`name`, and `parent` where it is missing. kAlreadyExists when `name` is there.
base::Result<std::filesystem::path> MakeCgroup(const std::filesystem::path& parent, const std::string& name);

// Everything in the cgroup and those below it; empty when it is gone.
std::vector<pid_t> CgroupPids(const std::filesystem::path& cgroup);

// SIGKILL to everything in the cgroup and below, atomically against fork. False where cgroup.kill is missing.
bool KillCgroup(const std::filesystem::path& cgroup);

// Removes it and the cgroups the job made below it; what still holds processes stays.
void RemoveCgroup(const std::filesystem::path& cgroup);

}  // namespace gpuman::keeper
