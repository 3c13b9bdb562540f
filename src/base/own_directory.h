// Directories that only the user of this process can change, in places where anybody can make some.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "base/result.h"

namespace gpuman::base {

// kPermissionDenied: the path is no directory (a link is none), or somebody else's, or others can write to
// it. In a directory with the sticky bit, such as /var/tmp, what passes stays so: nobody else can move it.
Result<> CheckOwnDirectory(const std::filesystem::path& path);

// Makes the directory where it is not there, and checks it. Its parent exists.
Result<> MakeOwnDirectory(const std::filesystem::path& path, mode_t mode);

}  // namespace gpuman::base
