// The daemon's configuration, checked by the daemon's program: it alone knows its keys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/paths.h"
#include "base/run_command.h"

namespace gpuman::cli {

// The file that is meant: the named one, else that of GPUMAN_CONFIG, else the one that gpumand reads if it is
// there.
struct ConfigFile {
  std::filesystem::path path;
  bool named = false;  // gpumand needs it; without a name it starts without a file, too
};
ConfigFile ConfigFileOf(const base::EnvironmentLookup& environment, const std::optional<std::string>& file);

// `gpumand --check-config` of a file; absent: the one that it would read. Status 0: it is valid.
base::Result<base::Finished> CheckConfigFile(const base::EnvironmentLookup& environment,
                                             const std::optional<std::string>& file);

}  // namespace gpuman::cli
