// Removes directories that other processes, also hostile ones, still change.
//
// Opens a fixed number of files at once, however deep the directories are. Follows no symbolic link, stays on
// the file system of the directory, and never leaves the directory that it was given: it goes down only, by
// descriptors, and a deep directory is moved up first. So a process that moves directories meanwhile leads it
// nowhere else. Blocks. Thread-safe. Errors carry the path.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/result.h"

namespace gpuman::base {

// Removes a file, or a directory with everything in it; no error if it does not exist. Files that come
// meanwhile are removed as well; it gives up on a directory in which files come again and again.
Result<> RemoveTree(const std::filesystem::path& path);

// A part of that: removes about `most` files and directories. True: all is gone. After false the next
// call goes on; each call gets further, also where others add files.
Result<bool> RemoveSomeOfTree(const std::filesystem::path& path, std::size_t most);

}  // namespace gpuman::base
