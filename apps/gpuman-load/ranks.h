// A load of several ranks that need each other: one process for each rank, as torchrun starts them, or one
// thread for each.
#pragma once

#include "options.h"
#include "report.h"

namespace gpuman::load {

// Starts options.ranks processes, or threads, and waits for them. When one ends early, the kernels of the others wait for
// ever: RunRanks kills them, as torchrun does; they end with this process as well. Returns the exit status of
// the rank that ended first, 128+N for one that signal N ended; the worst one if all came to their end. Must
// be called before the process uses CUDA.
int RunRanks(const Options& options, Report& report);

}  // namespace gpuman::load
