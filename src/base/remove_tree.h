// Removes directories in which other processes still add or remove files.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace gpuman::base {

// Removes a file, or a directory with everything in it; no error if it does not exist. Tries again for a
// fifth of a second if another process adds or removes files at the same time: the standard library gives up
// in this case. Blocks. Thread-safe. Errors carry the path.
Result<> RemoveTree(const std::filesystem::path& path);

}  // namespace gpuman::base
