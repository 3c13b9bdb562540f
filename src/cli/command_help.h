// The help texts of commands, for CLI11. Internal to the parser (parser.h).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "cli/command.h"

namespace gpuman::cli {

// `command_of` finds the command that an app was made of, and must work as long as the formatter is used.
using CommandOf = std::function<const Command&(const CLI::App*)>;
std::shared_ptr<CLI::Formatter> HelpFormatter(CommandOf command_of);

// What follows the lists in the help: the example, then Command::footer.
std::string FooterOf(const Command& command);

}  // namespace gpuman::cli
