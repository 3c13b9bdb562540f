// The work of one process: allocate, iterate, hold, jump, verify, free.
#pragma once

#include "driver/cuda.h"
#include "options.h"
#include "report.h"

namespace gpuman::load {

// Loads the driver, does what the options say, reports each event. Returns the exit status. `child` numbers
// the process among its siblings, from 1; 0: the load is this one process.
int RunWorkload(const Options& options, Report& report, unsigned child);

}  // namespace gpuman::load
