// The work of one rank: allocate, meet the other ranks in each step, verify, free.
#pragma once

#include "options.h"
#include "report.h"
#include "windows.h"

namespace gpuman::load {

// Loads the driver and does the work of rank `rank`, on device rank modulo the visible ones (with
// options.threads on the device with that number); reports each event. Returns the exit status, when all ranks have come to the end.
int RunRank(const Options& options, Report& report, const Shared& shared, unsigned rank);

}  // namespace gpuman::load
