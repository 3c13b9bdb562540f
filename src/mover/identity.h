// Who the mover is.
#pragma once

#include "base/result.h"
#include "suspend/mover_options.h"

namespace gpuman::mover {

// All signals as a fresh process has them.
void ResetSignals();
// No other process of the user's looks into this one, takes its descriptors or traces it (PR_SET_DUMPABLE):
// what the mover says is what this program says. The driver works so as well (measured with 580.159.04:
// /proc/self is root's then, and nothing of it is needed).
void KeepOthersOut();
// Groups, gid, uid, for good, and the others still out.
base::Result<> Become(const suspend::MoverUser& user);

}  // namespace gpuman::mover
