// A file in memory that a daemon gives the keeper, so that its content outlives the daemon: what the job's
// programs count. The keeper does not read it; it saves the bytes at the end of each run.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::keeper {

inline constexpr const char* kHeldFile = "held";
inline constexpr std::size_t kMaxHeld = std::size_t{16} << 20;

// kInvalidArgument: it is no regular file, or larger than kMaxHeld.
base::Result<> CheckHeld(int file);

// Writes the bytes to JOB_DIR/held, in place of those of an earlier run. Parts of zeros take no room.
base::Result<> SaveHeld(int file, const std::filesystem::path& job_dir);

// The next run begins.
void RemoveSavedHeld(const std::filesystem::path& job_dir);

}  // namespace gpuman::keeper
