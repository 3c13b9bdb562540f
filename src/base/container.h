// Which container of Kubernetes a process is in, as the names of its cgroups tell it. Thread-safe; pure but
// for ReadContainer.
//
// Kubelet and the container runtime make those cgroups as root, so a process of a container cannot choose
// them; it may make more below its own, which is why the outermost name counts.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gpuman::base {

// Kubernetes' classes of pods, by what they asked for.
enum class PodClass { kGuaranteed, kBurstable, kBestEffort };

struct ContainerCgroup {
  std::string id;       // the runtime's: 64 hexadecimal digits
  std::string pod_uid;  // as Kubernetes writes it; empty: kubelet makes no cgroups for pods
  std::optional<PodClass> pod_class;
  // Where the container's own cgroup is: its path in the tree of cgroup v2 (empty), or of these controllers
  // of v1, as the kernel names them ("memory", "cpu,cpuacct", "name=systemd").
  std::string controllers, path;
  friend bool operator==(const ContainerCgroup&, const ContainerCgroup&) = default;
};

// From the text of /proc/PID/cgroup: containerd, CRI-O and Docker, with cgroups by systemd or by kubelet
// itself. nullopt: in no container, or in none that is made in one of these ways.
std::optional<ContainerCgroup> ParseContainerCgroup(std::string_view text);

// The mount point of a whole tree of cgroups, from the text of /proc/PID/mountinfo; `controllers` as above.
std::optional<std::string> CgroupMountPoint(std::string_view mountinfo, std::string_view controllers);

struct ProcessContainer {
  ContainerCgroup group;
  std::filesystem::path directory;  // of the container's cgroup, in the file system
};

// The container of a process. nullopt: it is in none, has ended, or its cgroup was made by a user. `proc`
// is where the process file system is mounted.
std::optional<ProcessContainer> ReadContainer(pid_t pid, const std::filesystem::path& proc = "/proc");

}  // namespace gpuman::base
