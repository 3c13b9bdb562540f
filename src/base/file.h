// Whole files, small ones: read, write, replace. Every descriptor is opened close-on-exec.
//
// Errors carry the path. Thread-safe.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::base {

Result<Fd> OpenFile(const std::filesystem::path& path, int flags, mode_t mode = 0644);

// Reads at most `limit` bytes; a longer file is an error (kExhausted). Works for /proc, whose files have no
// size.
Result<std::string> ReadFile(const std::filesystem::path& path, std::size_t limit = 16u << 20);

// Writes all of `data`, over short writes and EINTR.
Result<> WriteAll(int fd, std::string_view data);

// Replaces the content of `path` by `data`. A reader, also after a power failure, sees either the old or the
// new content whole: temporary file, fsync, rename, fsync of the directory.
Result<> ReplaceFile(const std::filesystem::path& path, std::string_view data, mode_t mode = 0644);

// Writes `data` to a file that must exist (cgroup and /proc control files).
Result<> WriteControl(const std::filesystem::path& path, std::string_view data);

// Makes the directory and its parents; it is no error if the directory exists.
Result<> MakeDirectories(const std::filesystem::path& path, mode_t mode = 0755);

}  // namespace gpuman::base
