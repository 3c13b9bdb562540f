// What gpuman has for people from gflow, nvshare and Slurm, as the commands of the queue take it.
#pragma once

#include "cli/queue/other_tools.h"

namespace gpuman::cli {

// A constant.
const queue::OtherTools& KnownTools();

}  // namespace gpuman::cli
