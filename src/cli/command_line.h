// Turns the text of `--command "…"` into an argument vector.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuman::cli {

// The text means what it means to /bin/sh. gpuman splits plain words, quotes and backslashes itself and
// starts the program without a shell; a text that needs a shell (variables, globs, pipes, redirections,
// lists, assignments, built-in commands) becomes {"/bin/sh", "-c", text}.
// kInvalidArgument: the text is empty, or a quote is never closed.
base::Result<std::vector<std::string>> SplitCommand(std::string_view text);

// The reverse, for display: words that a shell would split come in single quotes.
std::string JoinCommand(const std::vector<std::string>& argv);

}  // namespace gpuman::cli
