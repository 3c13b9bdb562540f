// The folders of a PATH.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace gpuman::cli {

inline constexpr std::string_view kUsualPath = "/usr/local/bin:/usr/bin:/bin";  // where PATH is not set

// In order. An empty one means the working directory, as execvp takes it.
inline std::vector<std::string> FoldersOf(std::string_view path) {
  std::vector<std::string> folders;
  for (std::size_t at = 0; at <= path.size();) {
    const auto end = std::min(path.find(':', at), path.size());
    folders.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  return folders;
}

}  // namespace gpuman::cli
