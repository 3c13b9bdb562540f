// Who the mover is.
#pragma once

#include "base/result.h"
#include "suspend/helper.h"

namespace gpuman::mover {

// All signals as a fresh process has them.
void ResetSignals();
// Groups, gid, uid, for good.
base::Result<> Become(const suspend::HelperUser& user);

}  // namespace gpuman::mover
