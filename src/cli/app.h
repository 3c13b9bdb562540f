// The programs of the command line, independent of the process that runs them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/command_context.h"

namespace gpuman::cli {

// `gpuman` with all of its commands.
Command GpumanProgram();

// Runs `gpuman`, or the program of gflow or nvshare with this name, with its arguments; returns the exit
// status.
int RunCli(std::string_view name, const std::vector<std::string>& arguments, const ProgramContext& context);

}  // namespace gpuman::cli
