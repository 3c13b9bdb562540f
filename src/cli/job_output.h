// Where the output of a job is that its log does not have.
#pragma once

#include <string>

#include "api/client.h"
#include "cli/command_context.h"

namespace gpuman::cli {

// Tells the user of output that goes to files, and of the logs of an array's other tasks. `ref`: as the user
// named the job.
void TellOtherOutput(CommandContext& session, const api::Client& daemon, const std::string& ref);

}  // namespace gpuman::cli
