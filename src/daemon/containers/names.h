// The names that Kubernetes has for a container or a pod, from the files that kubelet keeps on the node:
//
//   LOGS/containers/POD_NAMESPACE_CONTAINER-ID.log   for each container, moments after its start
//   LOGS/pods/NAMESPACE_POD_UID/                     for each pod, before its containers start
//
// Names of namespaces, pods and containers have no '_'. Thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace gpuman::daemon {

struct PodName {
  std::string name_space, pod;
  friend bool operator==(const PodName&, const PodName&) = default;
};

struct ContainerName {
  PodName pod;
  std::string container;
  friend bool operator==(const ContainerName&, const ContainerName&) = default;
};

// nullopt: the name is not that of this container's log, or of this pod's directory.
std::optional<ContainerName> NameOfLog(std::string_view file, std::string_view id);
std::optional<PodName> NameOfPodDirectory(std::string_view directory, std::string_view pod_uid);

std::optional<ContainerName> FindContainerName(const std::filesystem::path& logs, const std::string& id);
std::optional<PodName> FindPodName(const std::filesystem::path& logs, const std::string& pod_uid);

}  // namespace gpuman::daemon
