// Internal to the programs under gflow's names: their commands as data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/queue/commands.h"

namespace gpuman::cli::queue {

struct GflowCommand {
  Command command;
  std::vector<std::string> aliases;
};

// A program has one command, or subcommands, which may have subcommands ("reserve create").
struct GflowProgram {
  std::string name;
  std::string summary;
  std::vector<GflowCommand> commands;  // a command without a name is the program itself
};

GflowProgram GflowProgramOf(std::string_view name);

GflowProgram Gctl();    // gflow_admin.cc
GflowProgram Gflowd();  // gflow_daemon.cc

// What happens with an index that no GPU of this machine has.
enum class UnknownGpu {
  kRefuse,    // kNotFound, and nothing changes: gctl
  kPassOver,  // a note: gflowd, whose option may come from the configuration of another machine
};
// The UUIDs of those indices of `spec` ("0,2", "0-3") that are GPUs of this machine; nullopt for "all".
// kNotFound where none is.
base::Result<std::optional<std::vector<std::string>>> AllowedGpus(Session& session, const api::Client& daemon,
                                                                  const std::string& spec,
                                                                  UnknownGpu unknown);

}  // namespace gpuman::cli::queue
