// From `--command "…"` to an argument vector.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuman::cli {

// The string means what it means to /bin/sh. Plain words, quotes and backslashes are taken apart here and the
// program is started without a shell between; whatever needs a shell (variables, globs, pipes, redirections,
// lists, assignments, built-in commands) becomes {"/bin/sh", "-c", text}.
// kInvalidArgument: nothing in it, or a quote that is never closed.
base::Result<std::vector<std::string>> SplitCommand(std::string_view text);

// The reverse, for display: words a shell would take apart come in single quotes.
std::string JoinCommand(const std::vector<std::string>& argv);

}  // namespace gpuman::cli
