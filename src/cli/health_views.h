// Renders health for people. Pure.
#pragma once

#include <string>

#include "api/health_types.h"
#include "cli/table.h"

namespace gpuman::cli {

// A line for each GPU, then each fault with the action that fixes it.
std::string RenderHealth(const api::HealthReport& report, const TerminalStyle& style);

}  // namespace gpuman::cli
