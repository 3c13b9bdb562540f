// What gpuman has for people from gflow, nvshare and Slurm, as the commands of the queue take it.
#pragma once

#include "cli/queue/tool_compatibility.h"

namespace gpuman::cli {

// A constant.
const queue::ToolCompatibility& KnownTools();

}  // namespace gpuman::cli
