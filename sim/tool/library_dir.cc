#include "sim/tool/library_dir.h"

#include <array>
#include <map>
#include <string_view>

#include "base/parse_number.h"

namespace gpuman::sim {

base::Result<std::filesystem::path> LibraryDirectory() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto prefix = self.parent_path().parent_path();
  constexpr std::array<std::string_view, 2> kFolders{"lib/sim", "lib/gpuman/sim"};
  for (const auto folder : kFolders) {
    if (std::filesystem::is_directory(prefix / folder, error)) return prefix / folder;
  }
  return base::Fail(base::ErrorCode::kNotFound,
                    "the simulated libraries are neither in " + (prefix / kFolders[0]).string() + " nor in " +
                        (prefix / kFolders[1]).string(),
                    "build everything with ./dev build, or install the package again");
}

std::string SearchPath(const std::filesystem::path& libraries, unsigned driver_major) {
  constexpr std::string_view kPrefix = "driver-";
  std::map<unsigned, std::string> folders;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(libraries, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    auto rest = std::string_view(name).substr(kPrefix.size());
    if (const auto branch = base::TakeNumber<unsigned>(rest)) folders.emplace(*branch, entry.path().string());
  }
  if (folders.empty()) return libraries.string();
  auto chosen = folders.upper_bound(driver_major);
  if (chosen != folders.begin()) --chosen;  // older than all: the oldest is nearest
  return chosen->second + ":" + libraries.string();
}

std::string WithFirst(const std::string& directories, const char* path_list) {
  std::string list = directories;
  if (path_list != nullptr && *path_list != '\0') list += ":" + std::string(path_list);
  return list;
}

}  // namespace gpuman::sim
