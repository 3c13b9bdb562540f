// The work of one process: allocate, iterate, hold, jump, verify, free.
#pragma once

#include "driver/cuda.h"
#include "options.h"
#include "report.h"
#include "session.h"

namespace gpuman::load {

// Reports that the process has its context; it began to make it at `before_ns`.
void ReportContext(Report& report, const Session& session, int ordinal, std::uint64_t before_ns);

// Loads the driver, does the work of the options, reports each event. Returns the exit status. `child` is the
// number of this process among its siblings, from 1; 0: the load is a single process.
int RunWorkload(const Options& options, Report& report, unsigned child);

}  // namespace gpuman::load
