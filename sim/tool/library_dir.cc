#include "sim/tool/library_dir.h"

#include <array>

namespace gpuman::sim {

base::Result<std::filesystem::path> LibraryDirectory() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto prefix = self.parent_path().parent_path();
  constexpr std::array<std::string_view, 2> kPlaces{"lib/sim", "lib/gpuman/sim"};
  for (const auto place : kPlaces) {
    if (std::filesystem::is_directory(prefix / place, error)) return prefix / place;
  }
  return base::Fail(base::ErrorCode::kNotFound,
                    "the simulated libraries are neither in " + (prefix / kPlaces[0]).string() + " nor in " +
                        (prefix / kPlaces[1]).string(),
                    "build everything with ./dev build, or install the package again");
}

std::string WithFirst(const std::filesystem::path& directory, const char* path_list) {
  std::string list = directory.string();
  if (path_list != nullptr && *path_list != '\0') list += ":" + std::string(path_list);
  return list;
}

}  // namespace gpuman::sim
