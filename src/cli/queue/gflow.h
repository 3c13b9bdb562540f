// `gpuman` under the names of gflow's programs: their options, columns and effects, for users and scripts of
// gflow (docs/coming-from-gflow.md). It contains no code of gflow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/session.h"

namespace gpuman::cli {

// gbatch gqueue ginfo gjob gcancel gctl gstats gflowd
bool IsGflowName(std::string_view program);

// Runs the program with its arguments (without the program's name) and returns the exit status.
int RunGflow(std::string_view program, const std::vector<std::string>& arguments,
             const SessionContext& context);

}  // namespace gpuman::cli
