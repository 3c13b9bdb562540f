// The load spread over child processes, to try what follows a process tree.
#pragma once

#include "options.h"
#include "report.h"

namespace gpuman::load {

// Starts options.children processes that each do the whole work and waits for them, those too that left the
// session. Returns the worst child's exit status, 128+N for one that signal N ended. Call it before CUDA is
// used.
int RunChildren(const Options& options, Report& report);

}  // namespace gpuman::load
