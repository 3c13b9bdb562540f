// The environment of jobs that share, where the user's shell was set up for nvshare. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/queue_types.h"

namespace gpuman::cli::nvshare {

// Removes nvshare's library from LD_PRELOAD of each job that shares: the library would look for its own
// scheduler, and end the program if it found none. Other jobs keep it. The daemon takes over the meaning of
// nvshare's variables. Returns notes for the user, each once.
std::vector<std::string> LeaveOutLibrary(api::SubmitRequest& request);

}  // namespace gpuman::cli::nvshare
