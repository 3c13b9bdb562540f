// Internal to the programs under gflow's names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/queue/commands.h"

namespace gpuman::cli::gflow {

Command Gqueue();
Command Gctl();
Command Ginfo();
Command Gstats();
Command Gflowd();

// The UUIDs of the indices of `spec` ("0,2", "0-3"); nullopt for "all", and where they are all GPUs.
// kNotFound where this machine does not have one of them.
base::Result<std::optional<std::vector<std::string>>> AllowedGpus(const api::Client& daemon,
                                                                  const std::string& spec);

}  // namespace gpuman::cli::gflow
