// Renders the story of a job for people. Pure.
#pragma once

#include <string>

#include "api/types.h"
#include "cli/text.h"

namespace gpuman::cli {

// Why the job waits, runs or ended, then what happened, with local times, then what to do.
std::string RenderStory(const api::JobStory& story, const TerminalStyle& style);

}  // namespace gpuman::cli
