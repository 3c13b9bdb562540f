// Renders sharing for people. Pure functions; each text ends with a line end.
#pragma once

#include <string>

#include "api/share_types.h"
#include "cli/text.h"

namespace gpuman::cli {

std::string RenderShare(const api::ShareView& view, const TerminalStyle& style);
std::string RenderShareSettings(const api::ShareSettings& settings);

}  // namespace gpuman::cli
