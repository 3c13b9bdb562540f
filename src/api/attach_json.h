// The call that attaches a process; as in client.h.
#pragma once

#include "api/attach_types.h"
#include "api/http.h"
#include "api/json.h"

namespace gpuman::api {

// Attaches a process. If the process is attached already, with the same tag, the daemon returns that job. So
// if a daemon ends before it has answered, or was killed before the call, the call asks the next daemon,
// which may have the job already. `patience` limits the time for all daemons together. If there was no
// daemon, the call does not wait for one. kUnavailable and kTimeout mean, as in client.h, that the call could
// ask no daemon.
base::Result<AttachAnswer> Attach(const std::filesystem::path& socket, const AttachRequest& request,
                                  base::Millis patience);

}  // namespace gpuman::api
