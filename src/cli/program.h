// Runs a program of the command line: `gpuman`, or one under the name of a program of gflow or nvshare.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/command_context.h"

namespace gpuman::cli {

// Reads the arguments (without the program's name), does what they say and returns the exit status.
int RunProgram(const Command& program, const std::vector<std::string>& arguments,
               const ProgramContext& context);

}  // namespace gpuman::cli
