// For tests: a command line of `submit` or gbatch, read as the program reads it.
#pragma once

#include <gtest/gtest.h>

#include "cli/parser.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

inline CommandLine Typed(const std::vector<std::string>& words, Flavour flavour = Flavour::kGpuman) {
  SubmitSettings settings;
  Command program{.name = "submit",
                  .summary = {},
                  .example = {},
                  .arguments = {},
                  .options = SubmitOptions(settings, flavour, {}),
                  .run = [](Session&, const CommandLine&) -> base::Result<int> { return kExitDone; },
                  .user_command = "COMMAND",
                  .ends_at_word = true};
  auto parsed = ReadCommandLine(program, {}, words);
  if (!parsed) {
    ADD_FAILURE() << parsed.error().message;
    return {};
  }
  return std::get<Chosen>(std::move(*parsed)).line;
}

}  // namespace gpuman::cli::queue
