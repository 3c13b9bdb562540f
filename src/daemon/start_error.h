// What a daemon that cannot start tells the person who started it. Pure.
#pragma once

#include <sys/types.h>

#include "base/result.h"

namespace gpuman::daemon {

// Adds to the hint that `gpumand --user` exists, where that helps: a daemon without --user may not write to a
// place of the system, or another daemon has it. `user`: the user who starts the daemon.
base::Error WithUserMode(base::Error error, bool user_mode, uid_t user);

}  // namespace gpuman::daemon
