#include "base/own_directory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace gpuman::base {

Result<> CheckOwnDirectory(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0)
    return FailSystem(errno, fmt::format("looking at {}", path.string()));
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Fail(ErrorCode::kPermissionDenied,
                fmt::format("{} is no directory of this user alone", path.string()), "remove it");
  return {};
}

Result<> MakeOwnDirectory(const std::filesystem::path& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST)
    return FailSystem(errno, fmt::format("making directory {}", path.string()));
  return CheckOwnDirectory(path);
}

}  // namespace gpuman::base
