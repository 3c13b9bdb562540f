// MPS for people: pure functions from a report to text.
#pragma once

#include <string>

#include "api/mps_types.h"
#include "cli/text.h"

namespace gpuman::cli {

// GPUs, then clients of the servers, then who is outside, waits, or what is wrong.
std::string RenderMps(const api::MpsReport& report, const TerminalStyle& style);

}  // namespace gpuman::cli
