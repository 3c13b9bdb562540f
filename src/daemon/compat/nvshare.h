// What the variables of nvshare mean for a job. Pure.
#pragma once

#include "api/types.h"

namespace gpuman::daemon::nvshare {

// Whether the environment of a job that shares asks for oversubscription, as nvshare reads it from a
// program's environment.
bool AsksForOversubscription(const api::RunRequest& request);

}  // namespace gpuman::daemon::nvshare
