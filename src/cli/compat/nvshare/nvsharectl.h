// `gpuman` under the name nvsharectl, for users of nvshare: the options of nvsharectl, with their effect on
// sharing (docs/sharing.md). It contains no code of nvshare.
#pragma once

#include <string_view>

#include "cli/command.h"

namespace gpuman::cli {

inline constexpr std::string_view kNvsharectl = "nvsharectl";

// The whole program. It refuses a call without options.
Command Nvsharectl();

}  // namespace gpuman::cli
