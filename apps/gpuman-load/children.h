// Spreads the load over child processes, to test code that follows a process tree.
#pragma once

#include "options.h"
#include "report.h"

namespace gpuman::load {

// Starts options.children processes that each do the whole work, and waits for them, including those that
// left the session. Returns the worst child's exit status, 128+N for a child that signal N ended. Must be
// called before the process uses CUDA.
int RunChildren(const Options& options, Report& report);

}  // namespace gpuman::load
