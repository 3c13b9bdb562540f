// What people see of sharing: pure functions from a value to text, ended by a line end.
#pragma once

#include <string>

#include "api/share_types.h"
#include "cli/text.h"

namespace gpuman::cli {

std::string RenderShare(const api::ShareView& view, const TerminalStyle& style);
std::string RenderShareSettings(const api::ShareSettings& settings);

}  // namespace gpuman::cli
