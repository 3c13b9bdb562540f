// Finds out from the names of its cgroups in which container of Kubernetes a process is. Thread-safe; all
// functions but ReadContainer are pure.
//
// Kubelet and the container runtime make those cgroups as root, so a process of a container cannot choose
// them. It may make more cgroups below its own; that is why the outermost name counts.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gpuman::base {

// Kubernetes' classes of pods (QoS), which follow from what the pods request.
enum class PodClass { kGuaranteed, kBurstable, kBestEffort };

struct ContainerCgroup {
  std::string id;       // the runtime's: 64 hexadecimal digits
  std::string pod_uid;  // as Kubernetes writes it; empty: kubelet makes no cgroups for pods
  std::optional<PodClass> pod_class;
  // Where the container's own cgroup is: its path in the tree of cgroup v2 (`controllers` is empty), or in
  // the tree of these controllers of v1, as the kernel names them ("memory", "cpu,cpuacct", "name=systemd").
  std::string controllers, path;
  friend bool operator==(const ContainerCgroup&, const ContainerCgroup&) = default;
};

// Reads the text of /proc/PID/cgroup. Knows containerd, CRI-O and Docker, with cgroups made by systemd or by
// kubelet itself. nullopt: the process is in no container, or in one that is made in another way.
std::optional<ContainerCgroup> ParseContainerCgroup(std::string_view text);

// The mount point of a whole tree of cgroups, from the text of /proc/PID/mountinfo. `controllers`: as in
// ContainerCgroup.
std::optional<std::string> CgroupMountPoint(std::string_view mountinfo, std::string_view controllers);

struct ProcessContainer {
  ContainerCgroup group;
  std::filesystem::path directory;  // of the container's cgroup, in the file system
};

// The container of a process. nullopt: the process is in none or has ended, or a user has made its cgroup.
// `proc` is the mount point of the process file system.
std::optional<ProcessContainer> ReadContainer(pid_t pid, const std::filesystem::path& proc = "/proc");

}  // namespace gpuman::base
