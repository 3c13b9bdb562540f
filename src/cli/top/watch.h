// `gpuman top` on a terminal: brings the screen, the daemon and the State together.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "cli/top/screen.h"
#include "cli/top/state.h"

namespace gpuman::cli::top {

// Returns the exit status when the user quits, or 128+N for a signal N. `state` has the options; `first` is
// what the daemon said already.
base::Result<int> Watch(const std::filesystem::path& socket, State state, Snapshot first,
                        const ScreenOptions& options);

}  // namespace gpuman::cli::top
