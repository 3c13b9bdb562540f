// For tests: a command line of `submit` or gbatch, read as the program reads it.
#pragma once

#include <utility>
#include <variant>

#include "cli/parser.h"
#include "cli/queue/command_dialect.h"

namespace gpuman::cli::queue {

struct ParsedSubmission {
  SubmitSettings settings;  // what the options said
  CommandLine line;
};

inline base::Result<ParsedSubmission> ParseSubmission(const std::vector<std::string>& words,
                                                      const CommandDialect& dialect = kGpuman,
                                                      base::WallTime now = {}) {
  ParsedSubmission typed;
  const Command program{
      .name = "submit",
      .summary = {},
      .example = {},
      .arguments = {},
      .options = dialect.submit_options(typed.settings, now),
      .run = [](CommandContext&, const CommandLine&) -> base::Result<int> { return kExitDone; },
      .user_command = "COMMAND",
      .ends_at_word = true};
  GPUMAN_ASSIGN(auto parsed, ReadCommandLine(program, {}, words));
  typed.line = std::get<RequestedCommand>(std::move(parsed)).line;
  GPUMAN_TRY(TakeOptions(program.options, typed.line.options));
  return typed;
}

}  // namespace gpuman::cli::queue
