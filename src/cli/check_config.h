// Checks the daemon's configuration by running gpumand: only gpumand knows the keys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/paths.h"
#include "base/run_command.h"

namespace gpuman::cli {

// The configuration file: the named one, else that of GPUMAN_CONFIG, else the one that gpumand reads if it
// exists.
struct ConfigFile {
  std::filesystem::path path;
  bool named = false;  // true: gpumand fails if the file is missing
};
ConfigFile ConfigFileOf(const base::EnvironmentLookup& environment, const std::optional<std::string>& file);

// Runs `gpumand --check-config` on the file; absent: on the file that gpumand would read. Status 0: the file
// is valid.
base::Result<base::ProgramResult> CheckConfigFile(const base::EnvironmentLookup& environment,
                                                  const std::optional<std::string>& file);

}  // namespace gpuman::cli
