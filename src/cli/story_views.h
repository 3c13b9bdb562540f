// Renders the story of a job for people. Pure.
#pragma once

#include <string>

#include "api/types.h"
#include "cli/text.h"

namespace gpuman::cli {

// Why the job waits, runs or ended, then what happened, with local times, then what to do: at most 23 lines,
// none wider than the terminal, if that has 80 columns or more. All of the advice is there, and five lines of
// the cause; what happened is cut first.
std::string RenderStory(const api::JobStory& story, const TerminalStyle& style);

}  // namespace gpuman::cli
