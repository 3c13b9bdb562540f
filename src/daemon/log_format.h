// How the daemon writes a line of its own log. No name of a process, a job or a user can begin a second line,
// or control the terminal that shows the log.
#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string>
#include <string_view>

namespace gpuman::daemon {

// Replaces characters that cannot be shown by escapes as in C: "\n", "\x1b", "\u202e"; bytes that are not
// UTF-8 as "\xff".
std::string EscapedForLog(std::string_view text);

// A formatter with this pattern of spdlog, which escapes the messages.
std::unique_ptr<spdlog::formatter> MakeLogFormatter(std::string pattern);

}  // namespace gpuman::daemon
