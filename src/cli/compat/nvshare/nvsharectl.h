// `gpuman` under the name nvsharectl, for users of nvshare: the options of nvsharectl, with their effect on
// sharing (docs/sharing.md). It contains no code of nvshare.
#pragma once

#include <string_view>

#include "cli/command.h"

namespace gpuman::cli::nvshare {

inline constexpr std::string_view kProgram = "nvsharectl";

// The whole program. It refuses a call without options.
Command MakeProgram();

}  // namespace gpuman::cli::nvshare
