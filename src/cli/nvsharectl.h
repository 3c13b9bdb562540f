// `gpuman` under the name nvsharectl, for users of nvshare: the options of nvsharectl, with their effect on
// sharing (docs/sharing.md). It contains no code of nvshare.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

namespace gpuman::cli {

inline constexpr std::string_view kNvsharectl = "nvsharectl";

// Runs the program with its arguments (without the program's name) and returns the exit status. Without
// arguments it shows its help, as the original does.
int RunNvsharectl(const std::vector<std::string>& arguments, const SessionContext& context);

}  // namespace gpuman::cli
