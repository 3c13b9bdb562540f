// Sorts the words of a command line before CLI11 reads them. Internal to the parser (parser.h).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace gpuman::cli {

// Whether the word names an option, known or not: "-g", "--gpus=1".
bool IsOption(const std::string& word);
bool TakesValue(const CLI::Option& option);
// The names that lead to the command: "gpuman job show".
std::string PathOf(const CLI::App& app);
// Whether a command below the app has an option of that name which takes a value.
bool TakesValueBelow(const CLI::App& app, const std::string& name);
// The error about an option that the command does not have; suggests the nearest one.
base::Error UnknownOption(const CLI::App& app, const std::string& word);

struct WrongOption {
  const CLI::App* app = nullptr;  // the command that got it
  base::Error error;
  std::string unknown;           // the word, if no option is called so
  std::size_t words_before = 0;  // arguments in front of it
};

struct ClassifiedWords {
  const CLI::App* app = nullptr;   // the command that the words lead to
  std::vector<std::string> ours;   // what CLI11 reads: names of commands, options, their values
  std::vector<std::string> words;  // arguments, or the whole of a user's command
  std::optional<std::vector<std::string>>
      trailing;                    // the words behind "--", unless a user's command contains it
  std::optional<WrongOption> bad;  // the first wrong option
};

// Sorts the words for CLI11, which gets no arguments and no "=": alone, CLI11 would read "--name="
// without a value, and the name of a command among arguments as one more command. An app that is a prefix
// command ends at a word (command.h).
ClassifiedWords SortWords(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace gpuman::cli
