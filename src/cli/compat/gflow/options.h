// Options under gflow's names and with gflow's units: those of gbatch, of scripts with #GFLOW lines, and of
// gjob update and gjob redo. They set what the options of `gpuman submit` and `gpuman job update` set.
#pragma once

#include "base/clock.h"
#include "cli/command.h"
#include "cli/queue/settings.h"
#include "cli/queue/update.h"

namespace gpuman::cli::gflow {

// --memory is host memory, and numbers without a unit are minutes and MiB. The functions of the table write
// into `settings`, which must live as long as it does.
Options GbatchOptions(queue::SubmitSettings& settings, base::WallTime now);

// The options of gjob update and gjob redo that differ from those of `gpuman job update`; as above.
Options GjobOptions(queue::JobUpdateSettings& settings, base::WallTime now);

}  // namespace gpuman::cli::gflow
