// The daemon's configuration, checked by the daemon's program: it alone knows its keys.
#pragma once

#include <optional>
#include <string>

#include "base/paths.h"
#include "base/run_command.h"

namespace gpuman::cli {

// `gpumand --check-config` of a file; absent: the one that it would read. Status 0: it is valid.
base::Result<base::Finished> CheckConfigFile(const base::EnvironmentLookup& environment,
                                             const std::optional<std::string>& file);

}  // namespace gpuman::cli
