// How a line of the daemon's own log is written: nothing that a process, a job or a user is called makes a
// second line of it, or does anything to the terminal that shows it.
#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string>
#include <string_view>

namespace gpuman::daemon {

// Escapes as in C for what cannot be shown: "\n", "\x1b", "\u202e"; bytes that are not UTF-8 as "\xff".
std::string EscapedForLog(std::string_view text);

// spdlog's pattern, with messages escaped.
std::unique_ptr<spdlog::formatter> MakeLogFormatter(std::string pattern);

}  // namespace gpuman::daemon
