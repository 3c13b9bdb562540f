// Reads command lines by commands that are data (command.h), with CLI11, and shows their help.
// command_words.h sorts the words for CLI11, command_help.h shows the help; nothing else in src/cli uses
// CLI11.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace gpuman::cli {

// The command that a command line asks for, and what was typed for it.
struct RequestedCommand {
  const Command* command = nullptr;  // of the program that was read; has `run`
  std::string path;                  // "gpuman job show"
  CommandLine line;
  std::vector<ParsedOption> common;
};
// What the program prints instead of running a command: a help text, the version.
struct HelpText {
  std::string text;
};
struct VersionAsked {};
// No command was given where one is needed: the help, as an error.
struct NothingAsked {
  std::string help;
};
using Parsed = std::variant<RequestedCommand, HelpText, VersionAsked, NothingAsked>;

// Reads the words of a command line, without the program's name. `program` must outlive the result; `common`
// are the options that each command has. ReadCommandLine does not check values: TakeOptions does that.
// kInvalidArgument says what to type instead. Words behind "--" are arguments of a command that has
// arguments.
base::Result<Parsed> ReadCommandLine(const Command& program, const Options& common,
                                     const std::vector<std::string>& words);

// `gpuman help run` is `gpuman run --help`, and `gpuman version` is `gpuman --version`. A program without
// commands shows its help for `help`, whatever follows; for it `version` is a word like others, such as the
// name of a job.
std::vector<std::string> WithHelpAsOption(const Command& program, std::vector<std::string> words);

// Reads options without a command: lines of scripts and of job files.
class OptionParser {
 public:
  // `options` must outlive the reader. `ends_at_word`: as in Command.
  explicit OptionParser(const Options& options, bool ends_at_word = false);
  ~OptionParser();
  OptionParser(const OptionParser&) = delete;
  OptionParser& operator=(const OptionParser&) = delete;

  // Takes the options in order and returns the words that are not options. If the options end at a word, a
  // "--" in front of these words is one of them; otherwise the first "--" is left out. kInvalidArgument names
  // the option, and suggests the nearest one.
  base::Result<std::vector<std::string>> Read(const std::vector<std::string>& words);

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace gpuman::cli
