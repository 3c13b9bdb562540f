#include "daemon/containers/names.h"

namespace gpuman::daemon {
namespace {

template <typename Read>
auto FindIn(const std::filesystem::path& directory, Read read) -> decltype(read(std::string())) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error))
    if (auto name = read(entry->path().filename().string())) return name;
  return std::nullopt;
}

}  // namespace

std::optional<ContainerName> NameOfLog(std::string_view file, std::string_view id) {
  const auto end = "-" + std::string(id) + ".log";
  if (id.empty() || !file.ends_with(end)) return std::nullopt;
  file.remove_suffix(end.size());
  const auto first = file.find('_');
  const auto second = file.find('_', first == std::string_view::npos ? first : first + 1);
  if (second == std::string_view::npos || file.find('_', second + 1) != std::string_view::npos)
    return std::nullopt;
  ContainerName name{
      {std::string(file.substr(first + 1, second - first - 1)), std::string(file.substr(0, first))},
      std::string(file.substr(second + 1))};
  if (name.pod.name_space.empty() || name.pod.pod.empty() || name.container.empty()) return std::nullopt;
  return name;
}

std::optional<PodName> NameOfPodDirectory(std::string_view directory, std::string_view pod_uid) {
  const auto end = "_" + std::string(pod_uid);
  if (pod_uid.empty() || !directory.ends_with(end)) return std::nullopt;
  directory.remove_suffix(end.size());
  const auto middle = directory.find('_');
  if (middle == std::string_view::npos || middle == 0 || middle + 1 == directory.size()) return std::nullopt;
  if (directory.find('_', middle + 1) != std::string_view::npos) return std::nullopt;
  return PodName{std::string(directory.substr(0, middle)), std::string(directory.substr(middle + 1))};
}

std::optional<ContainerName> FindContainerName(const std::filesystem::path& logs, const std::string& id) {
  return FindIn(logs / "containers", [&](const std::string& file) { return NameOfLog(file, id); });
}

std::optional<PodName> FindPodName(const std::filesystem::path& logs, const std::string& pod_uid) {
  if (pod_uid.empty()) return std::nullopt;
  return FindIn(logs / "pods",
                [&](const std::string& directory) { return NameOfPodDirectory(directory, pod_uid); });
}

}  // namespace gpuman::daemon
