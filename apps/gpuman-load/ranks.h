// A load of several processes that need each other, as torchrun starts it: one process for each rank.
#pragma once

#include "options.h"
#include "report.h"

namespace gpuman::load {

// Starts options.ranks processes and waits for them. When one ends early, the kernels of the others wait for
// ever: RunRanks kills them, as torchrun does; they end with this process as well. Returns the exit status of
// the rank that ended first, 128+N for one that signal N ended; the worst one if all came to their end. Must
// be called before the process uses CUDA.
int RunRanks(const Options& options, Report& report);

}  // namespace gpuman::load
