// Renders MIG for people. Pure.
#pragma once

#include <string>

#include "api/mig_types.h"
#include "cli/table.h"

namespace gpuman::cli {

// What each GPU can be split into; GPUs with the same profiles share one table.
std::string RenderMigProfiles(const api::MigReport& report, const TerminalStyle& style);
// What each GPU is split into, and where that differs from what was asked for.
std::string RenderMig(const api::MigReport& report, const TerminalStyle& style);
// The steps of a plan, or the result of each step.
std::string RenderMigChanges(const api::MigChanges& changes, bool is_plan);

}  // namespace gpuman::cli
