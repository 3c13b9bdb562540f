// The output of a job as lines that a screen can show. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuman::cli::top {

// Returns the lines of a log as they can be shown: without colour sequences, tabs as blanks, the rest
// printable. If a line was overwritten (progress bar, '\r'), this takes its last text.
std::vector<std::string> LogLines(std::string_view text);

}  // namespace gpuman::cli::top
