// Internal to the programs under gflow's names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/queue/commands.h"

namespace gpuman::cli::gflow {

Command Gctl();
Command Gflowd();

// What happens with an index that no GPU of this machine has.
enum class UnknownGpu {
  kRefuse,    // kNotFound, and nothing changes: gctl
  kPassOver,  // a note: gflowd, whose option may come from the configuration of another machine
};
// The UUIDs of those indices of `spec` ("0,2", "0-3") that are GPUs of this machine; nullopt for "all".
// kNotFound where no index is a GPU of this machine.
base::Result<std::optional<std::vector<std::string>>> AllowedGpus(Session& session, const api::Client& daemon,
                                                                  const std::string& spec,
                                                                  UnknownGpu unknown);

}  // namespace gpuman::cli::gflow
