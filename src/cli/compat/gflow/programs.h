// `gpuman` under the names of gflow's programs, with gflow's options and columns, for users and scripts of
// gflow (docs/coming-from-gflow.md). The programs contain no code of gflow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace gpuman::cli::gflow {

// Whether gflow has a program of this name: gbatch, gqueue, ginfo, gjob, gcancel, gctl, gstats, gflowd.
bool IsProgram(std::string_view name);

// Makes the program. `name`: IsProgram knows it; `arguments`: the words behind the name.
//
// Each program has the command `completion SHELL`, and gbatch has `new NAME`. A program without other
// commands has such a command only where these two words were typed: other words may belong to the user, who
// may have a program called `new`.
Command MakeProgram(std::string_view name, const std::vector<std::string>& arguments);

}  // namespace gpuman::cli::gflow
