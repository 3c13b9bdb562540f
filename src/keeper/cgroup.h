// The job's own cgroup v2 directory, where the machine has cgroup v2 and lets us make a directory. The keeper
// uses it to list and kill all processes in it, and needs no controller for that. On hybrid machines the tree
// lies at /sys/fs/cgroup/unified, so the place is read from /proc/self/mountinfo (proc(5), cgroups(7)).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace gpuman::keeper {

// The directory of this process's own cgroup; kNotSupported without cgroup v2.
base::Result<std::filesystem::path> OwnCgroupDirectory();
// Where the tree is mounted; empty without cgroup v2.
std::filesystem::path TopCgroupDirectory();

// Makes `parent`/`name`, and `parent` where it is missing. kAlreadyExists when `name` exists.
base::Result<std::filesystem::path> MakeCgroup(const std::filesystem::path& parent, const std::string& name);

// All processes in the cgroup and the cgroups below it; empty when the cgroup is gone.
std::vector<pid_t> CgroupPids(const std::filesystem::path& cgroup);

// Sends SIGKILL to everything in the cgroup and below, atomically against fork. False where cgroup.kill is
// missing.
bool KillCgroup(const std::filesystem::path& cgroup);

// Removes the cgroup and those that the job made below it; a cgroup that still holds processes stays.
void RemoveCgroup(const std::filesystem::path& cgroup);

}  // namespace gpuman::keeper
