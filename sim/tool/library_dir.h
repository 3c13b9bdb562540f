// Where the simulated libraries lie: lib/sim beside bin/ in a build tree, lib/gpuman/sim when installed;
// below it, a folder for each range of driver versions that exports fewer symbols than the newest.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace gpuman::sim {

base::Result<std::filesystem::path> LibraryDirectory();

// `path_list` (as in LD_LIBRARY_PATH) with `directory` in front.
std::string WithFirst(const std::filesystem::path& directory, const char* path_list);

}  // namespace gpuman::sim
