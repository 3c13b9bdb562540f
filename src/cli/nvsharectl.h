// What gpuman is under the name nvsharectl, for people who come from nvshare: the options of its command,
// with their effect on sharing (docs/sharing.md). No code of nvshare's.
#pragma once

#include <string>
#include <vector>

#include "cli/session.h"

namespace gpuman::cli {

inline constexpr std::string_view kNvsharectl = "nvsharectl";

// Reads the arguments (without the program's name), does what they say and returns the exit status. Without
// any it shows its help, as the original does.
int RunNvsharectl(const std::vector<std::string>& arguments, const SessionContext& context);

}  // namespace gpuman::cli
