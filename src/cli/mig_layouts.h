// Files with MIG layouts, each with a name: ours in TOML, or those of NVIDIA's mig-parted in YAML.
//
// Read here and not in the daemon: it runs as root, and a parser of YAML is much for that. Pure; no exception
// leaves. Keys that nobody knows are refused, with the line: a misspelt one must not be silently absent.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/mig_types.h"
#include "base/result.h"

namespace gpuman::cli {

using MigLayouts = std::map<std::string, std::vector<api::MigDevices>>;

// YAML where there is a "mig-configs:", else TOML. `file` is for messages. kInvalidArgument: "FILE:LINE: …".
base::Result<MigLayouts> ParseMigLayouts(std::string_view text, const std::string& file);

// One layout as such a file, which ParseMigLayouts reads again.
std::string WriteMigToml(const std::string& name, const std::vector<api::MigDevices>& devices);
std::string WriteMigParted(const std::string& name, const std::vector<api::MigDevices>& devices);

}  // namespace gpuman::cli
