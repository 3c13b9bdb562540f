// Removing what others are still busy in.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace gpuman::base {

// Removes a file, or a directory with all in it; nothing there is fine. Tries again for a fifth of a second
// where somebody else adds or removes at the same time: the standard library gives up there. Blocks.
// Thread-safe. Errors carry the path.
Result<> RemoveTree(const std::filesystem::path& path);

}  // namespace gpuman::base
