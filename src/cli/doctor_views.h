// Renders the doctor's findings for people. Pure.
#pragma once

#include <string>

#include "api/json.h"
#include "cli/text.h"
#include "doctor/checks.h"

namespace gpuman::cli {

// Errors come first, then what could be better, what is not known and what is fine; `cold_start` only where
// it was measured.
std::string RenderFindings(const doctor::Findings& findings,
                           const std::optional<doctor::ColdStart>& cold_start, const TerminalStyle& style);
api::Json FindingsToJson(const doctor::Findings& findings,
                         const std::optional<doctor::ColdStart>& cold_start);

}  // namespace gpuman::cli
