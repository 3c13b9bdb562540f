// `gpuman` under the names of gflow's programs: their options, columns and effects, for users and scripts of
// gflow (docs/coming-from-gflow.md). It contains no code of gflow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace gpuman::cli {

// gbatch gqueue ginfo gjob gcancel gctl gstats gflowd
bool IsGflowName(std::string_view program);

// The whole program of a name that IsGflowName knows. `arguments` is what was typed behind the name: gbatch's
// `new NAME` and the `completion SHELL` of each are its commands only where they were typed, since a program
// of a user may have such a name.
Command GflowProgram(std::string_view name, const std::vector<std::string>& arguments);

}  // namespace gpuman::cli
