// Internal to daemon/config/config.cc: the keys of [notify].
#pragma once

#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/config/toml_reader.h"
#include "notify/settings.h"

namespace gpuman::daemon {

void ReadNotify(TomlReader& in, notify::NotificationSettings& settings);

// Files that hold secrets must exist, belong to the daemon's user or root, and be closed to all other users.
// `file`: the configuration file, which the problems name.
std::vector<ConfigProblem> ProblemsOfFiles(const notify::NotificationSettings& settings,
                                           const std::string& file);

// The first line of such a file; kInvalidArgument says what is wrong with it.
base::Result<std::string> ReadSecret(const std::filesystem::path& file);

}  // namespace gpuman::daemon
