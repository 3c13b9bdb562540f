// gflow's dialect: --memory is host memory, numbers without a unit are minutes and MiB, and a job is
// announced in gflow's words (docs/coming-from-gflow.md).
#pragma once

#include "cli/queue/command_dialect.h"

namespace gpuman::cli::gflow {

extern const queue::CommandDialect kDialect;

}  // namespace gpuman::cli::gflow
