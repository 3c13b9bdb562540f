// The whole command line program, independent of the process that runs it.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

namespace gpuman::cli {

// Reads the arguments (without the program's name), does what they say and returns the exit status.
int RunCli(const std::vector<std::string>& arguments, const SessionContext& context);

}  // namespace gpuman::cli
