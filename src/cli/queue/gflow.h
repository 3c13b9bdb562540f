// What gpuman is under the names of gflow's programs: their options, columns and effects, for people and
// scripts that come from gflow (docs/coming-from-gflow.md). No code of gflow's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/session.h"

namespace gpuman::cli {

// gbatch gqueue ginfo gjob gcancel gctl gstats gflowd
bool IsGflowName(std::string_view program);

// Reads the arguments (without the program's name), does what they say and returns the exit status.
int RunGflow(std::string_view program, const std::vector<std::string>& arguments,
             const SessionContext& context);

}  // namespace gpuman::cli
