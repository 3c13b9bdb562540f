#include "base/container.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/text.h"

namespace gpuman::base {
namespace {

constexpr std::size_t kIdDigits = 64;

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool DropSuffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// `name` is "ID", or with systemd "RUNTIME-ID.scope". Empty: it is not the name of a container.
std::string_view IdOf(std::string_view name) {
  constexpr std::array<std::string_view, 3> kRuntimes{"cri-containerd-", "crio-", "docker-"};
  if (DropSuffix(name, ".scope") && std::none_of(kRuntimes.begin(), kRuntimes.end(),
                                                 [&](auto runtime) { return DropPrefix(name, runtime); }))
    return {};
  return name.size() == kIdDigits && std::all_of(name.begin(), name.end(), IsHex) ? name : std::string_view();
}

// `name` is "podUID", or with systemd "…-podUID.slice" with '_' for each '-' of the UID. Empty: it is not the
// name of a pod. The UID of a static pod has no '-'.
std::string PodUidOf(std::string_view name) {
  if (DropSuffix(name, ".slice")) {
    const auto at = name.rfind("-pod");
    if (at == std::string_view::npos) return {};
    name.remove_prefix(at + 1);
  }
  if (!DropPrefix(name, "pod") || (name.size() != 32 && name.size() != 36)) return {};
  std::string uid(name);
  std::replace(uid.begin(), uid.end(), '_', '-');
  return std::all_of(uid.begin(), uid.end(), [](char c) { return IsHex(c) || c == '-'; }) ? uid
                                                                                          : std::string();
}

std::vector<std::string_view> NamesOf(std::string_view path) {
  std::vector<std::string_view> names;
  while (!path.empty())
    if (const auto name = TakeUntil(path, '/'); !name.empty()) names.push_back(name);
  return names;
}

std::string PathUpTo(std::string_view path, std::string_view name) {
  return std::string(path.data(), name.data() + name.size());
}

std::optional<PodClass> ClassOf(std::string_view above) {
  if (above.find("besteffort") != std::string_view::npos) return PodClass::kBestEffort;
  if (above.find("burstable") != std::string_view::npos) return PodClass::kBurstable;
  return PodClass::kGuaranteed;
}

std::optional<ContainerCgroup> ParsePath(std::string_view path) {
  const auto names = NamesOf(path);
  ContainerCgroup found;
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    found.pod_uid = PodUidOf(names[i]);
    if (found.pod_uid.empty()) continue;
    found.id = IdOf(names[i + 1]);
    if (found.id.empty()) return std::nullopt;  // a cgroup of the runtime, such as crio-conmon-ID.scope
    found.pod_class = ClassOf(path.substr(0, static_cast<std::size_t>(names[i + 1].data() - path.data())));
    found.path = PathUpTo(path, names[i + 1]);
    return found;
  }
  for (const auto name : names) {
    found.id = IdOf(name);
    if (found.id.empty()) continue;
    found.path = PathUpTo(path, name);
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ContainerCgroup> ParseContainerCgroup(std::string_view text) {
  std::optional<ContainerCgroup> best;
  while (!text.empty()) {
    auto line = TakeUntil(text, '\n');
    const auto number = TakeUntil(line, ':');
    const auto controllers = TakeUntil(line, ':');
    auto found = line.starts_with('/') ? ParsePath(line) : std::nullopt;
    if (!found) continue;
    found->controllers = controllers;
    if (number == "0" && controllers.empty()) return found;
    if (!best && !controllers.empty()) best = std::move(found);
  }
  return best;
}

std::optional<std::string> CgroupMountPoint(std::string_view mountinfo, std::string_view controllers) {
  if (controllers.empty()) {
    const auto mount = FindCgroup2Mount(mountinfo);
    return mount && mount->root == "/" ? std::optional(mount->mount_point.string()) : std::nullopt;
  }
  while (!mountinfo.empty()) {
    auto line = TakeUntil(mountinfo, '\n');
    const auto separator = line.find(" - ");
    if (separator == std::string_view::npos) continue;
    auto rest = line.substr(separator + 3);
    if (TakeUntil(rest, ' ') != "cgroup") continue;
    (void)TakeUntil(rest, ' ');  // the source
    for (int field = 0; field < 3; ++field) (void)TakeUntil(line, ' ');
    const auto root = TakeUntil(line, ' ');
    const auto point = TakeUntil(line, ' ');
    // "rw,cpu,cpuacct"
    const auto options = "," + std::string(TakeUntil(rest, ' ')) + ",";
    if (root == "/" && options.find("," + std::string(controllers) + ",") != std::string::npos)
      return std::string(point);
  }
  return std::nullopt;
}

std::optional<ProcessContainer> ReadContainer(pid_t pid, const std::filesystem::path& proc) {
  const auto groups = ReadFile(proc / std::to_string(pid) / "cgroup");
  auto group = groups ? ParseContainerCgroup(*groups) : std::nullopt;
  if (!group) return std::nullopt;
  const auto mounts = ReadFile(proc / "self" / "mountinfo");
  const auto point = mounts ? CgroupMountPoint(*mounts, group->controllers) : std::nullopt;
  if (!point) return std::nullopt;
  const auto directory = std::filesystem::path(*point) / std::filesystem::path(group->path).relative_path();
  // The container's cgroup may belong to its user. If the cgroup above it is not root's, a user has made it.
  struct stat above {};
  if (::stat(directory.parent_path().c_str(), &above) != 0) return std::nullopt;
  if (above.st_uid != 0 && above.st_uid != ::geteuid()) return std::nullopt;
  return ProcessContainer{std::move(*group), directory};
}

}  // namespace gpuman::base
