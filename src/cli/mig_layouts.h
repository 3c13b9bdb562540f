// Files with MIG layouts, each with a name: gpuman's own in TOML, or those of NVIDIA's mig-parted in YAML.
//
// The command line reads them, not the daemon: the daemon runs as root, and a YAML parser is too much code
// for that. Pure; the functions throw no exception. Unknown keys are refused, with the line: a misspelt key
// must not be ignored silently.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/mig_types.h"
#include "base/result.h"

namespace gpuman::cli {

using MigLayouts = std::map<std::string, std::vector<api::MigConfigSpec>>;

// Reads YAML where the text has a "mig-configs:", else TOML. `file` is for messages. kInvalidArgument:
// "FILE:LINE: …".
base::Result<MigLayouts> ParseMigLayouts(std::string_view text, const std::string& file);

// Writes one layout as a file that ParseMigLayouts can read.
std::string WriteMigToml(const std::string& name, const std::vector<api::MigConfigSpec>& devices);
std::string WriteMigParted(const std::string& name, const std::vector<api::MigConfigSpec>& devices);

}  // namespace gpuman::cli
