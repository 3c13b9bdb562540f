// Renders MPS for people. Pure.
#pragma once

#include <string>

#include "api/mps_types.h"
#include "cli/text.h"

namespace gpuman::cli {

// The GPUs, then the clients of the servers, then processes outside of MPS, waiting jobs and problems.
std::string RenderMps(const api::MpsReport& report, const TerminalStyle& style);

}  // namespace gpuman::cli
