// Whether the program of a job can be executed, as the caller sees the file system.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/queue/origin.h"

namespace gpuman::cli::queue {

// Looks up the program `name` as execvp does, with the job's directory and its PATH. An error here comes
// sooner and is clearer than the job's failure. kNotFound, kPermissionDenied.
base::Result<> CheckProgram(const std::string& name, const std::string& directory,
                            const Variables& environment);

}  // namespace gpuman::cli::queue
