// Where the simulated libraries are: lib/sim beside bin/ in a build tree, lib/gpuman/sim when installed;
// below it, a folder for each range of driver versions that exports fewer symbols than the newest.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace gpuman::sim {

base::Result<std::filesystem::path> LibraryDirectory();

// The search path for the libraries of this driver version, in LD_LIBRARY_PATH's form: the folder of the
// latest version that is not newer than this one, and the common folder.
std::string SearchPath(const std::filesystem::path& libraries, unsigned driver_major);

// `path_list` (as in LD_LIBRARY_PATH) with `directories` in front.
std::string WithFirst(const std::string& directories, const char* path_list);

}  // namespace gpuman::sim
