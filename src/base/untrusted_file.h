// Opens files for reading at paths that another user has named or can change.
//
// Opening alone has effects: /dev/watchdog begins to count, a tape winds back, the other end of a pipe goes
// on, an automount mounts. Here only regular files are opened; all other files are looked at without opening
// them (O_PATH). Readers never wait for a pipe or a lease. Descriptors are close-on-exec. Thread-safe.
#pragma once

#include <filesystem>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace gpuman::base {

// Follows symbolic links, but mounts nothing on the way (from Linux 5.12 on). kInvalidArgument: the path
// leads to something else than a regular file. kUnavailable: it leads to what is not mounted yet. Other
// errors are those of open(2), with the path.
Result<Fd> OpenUntrustedFile(const std::filesystem::path& path);

// The file `name` of the directory; a symbolic link is refused as other files are.
Result<Fd> OpenUntrustedFileIn(int directory, const std::string& name);

// Whether both are on one device. Asks no file system: one that a user has written may take any time to
// answer.
bool AreOnOneDevice(int a, int b);

}  // namespace gpuman::base
