// What the doctor found, for people: pure.
#pragma once

#include <string>

#include "api/json.h"
#include "cli/text.h"
#include "doctor/checks.h"

namespace gpuman::cli {

// What is wrong first, then what could be better, is not known, is fine; `cold_start` where it was measured.
std::string RenderFindings(const doctor::Findings& findings,
                           const std::optional<doctor::ColdStart>& cold_start, const TerminalStyle& style);
api::Json FindingsToJson(const doctor::Findings& findings,
                         const std::optional<doctor::ColdStart>& cold_start);

}  // namespace gpuman::cli
