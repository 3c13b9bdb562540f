// The script that sbatch gets on its standard input. Pure; thread-safe.
#pragma once

#include <string>

#include "api/queue_types.h"
#include "base/result.h"

namespace gpuman::cli::slurm {

// A command becomes a script for /bin/sh that ends as the command ends, and runs the command again where the
// job asks for retries. A script stays as it is, except for what must be set before its first command: its
// arguments, the variables of an array, the umask, the conda environment. kUnsatisfiable where that is
// impossible.
base::Result<std::string> BatchScript(const api::Submission& job);

}  // namespace gpuman::cli::slurm
