// Health as people read it. Pure.
#pragma once

#include <string>

#include "api/health_types.h"
#include "cli/table.h"

namespace gpuman::cli {

// A line for each GPU, then each fault with what is to be done.
std::string RenderHealth(const api::HealthReport& report, const TerminalStyle& style);

}  // namespace gpuman::cli
