// The mover's user, signals and protection.
#pragma once

#include "base/result.h"
#include "suspend/mover_options.h"

namespace gpuman::mover {

// Sets all signals to the state of a new process.
void ResetSignals();
// No other process of the user can look into this one, take its descriptors or trace it (PR_SET_DUMPABLE): so
// only this program speaks for the mover. The driver works with this setting too (measured with 580.159.04:
// /proc/self belongs to root then, and the driver needs nothing in it).
void KeepOthersOut();
// Sets groups, gid and uid permanently, and then calls KeepOthersOut.
base::Result<> Become(const suspend::MoverUser& user);

}  // namespace gpuman::mover
