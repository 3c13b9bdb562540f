// MIG as people read it. Pure.
#pragma once

#include <string>

#include "api/mig_types.h"
#include "cli/table.h"

namespace gpuman::cli {

// What each GPU can be split into; GPUs with the same profiles once.
std::string RenderMigProfiles(const api::MigReport& report, const TerminalStyle& style);
// What each is split into, and where that is not what was asked for.
std::string RenderMig(const api::MigReport& report, const TerminalStyle& style);
// The steps of a plan, or what became of them.
std::string RenderMigChanges(const api::MigChanges& changes, bool is_plan);

}  // namespace gpuman::cli
