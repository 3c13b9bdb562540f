// The files of one job's directory, and the lock that says whether its keeper lives.
#pragma once

#include <sys/un.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::keeper {

inline constexpr const char* kSpecFile = "spec.json";
inline constexpr const char* kJournalFile = "journal";
inline constexpr const char* kLockFile = "lock";
inline constexpr const char* kControlSocket = "control";

base::Result<base::Fd> OpenDirectory(const std::filesystem::path& directory);

// The address of DIRECTORY/control through /proc/self/fd, so that it fits, however long the path is.
sockaddr_un ControlAddress(int directory_fd);

// Takes an open-file-description lock: it belongs to the descriptor and its copies in forked children.
// kConflict when another process holds it. LockHeld only tests whether a process holds the lock.
base::Result<base::Fd> TakeLock(const std::filesystem::path& job_dir);
bool LockHeld(const std::filesystem::path& job_dir);

// The lock's file has the line of the process that took it last, and behind that what such processes wrote
// there; taking the lock leaves it. A disk that takes no text leaves the lock as good as it was.
std::string ReadBehindHolder(int lock_fd);
void WriteBehindHolder(int lock_fd, std::string_view text);

}  // namespace gpuman::keeper
