// A command of the command line as data: what it is called, the options and arguments that it takes, and what
// it does. The parser (parser.h) reads a command line by it, and shows its help; the shells' completion
// (complete.h) proposes its words. Lines of scripts and of job files take options of the same tables.
//
// Values, not thread-safe: the functions of a command share its settings, so that a command runs once.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/session.h"

namespace gpuman::cli {

// What the value of an option or an argument is, for help and completion. Alternatives are written "no|yes";
// other words are refused.
inline constexpr const char* kJobValue = "JOB";
inline constexpr const char* kGpuValue = "GPU";
inline constexpr const char* kFileValue = "FILE";
inline constexpr const char* kSizeValue = "SIZE";
inline constexpr const char* kTimeValue = "TIME";
inline constexpr const char* kRestartValue = "no|on-failure|always";

// Takes the value of an option; empty for an option without one. Its error does not need the option's name in
// front.
using Take = std::function<base::Result<>(const std::string& value)>;

struct Option {
  std::string names;  // "-g,--gpus,--gres"
  std::string value;  // what the help calls its value; empty: the option takes none
  std::string help;   // empty: the option is not shown, and not completed
  Take take;
  std::string heading{};            // of the help; empty: the usual one
  std::vector<std::string> sets{};  // the options of a job that it sets, by their names in the API
  bool required = false;
};
using Options = std::vector<Option>;

// "-g", "--gpus", "--gres".
std::vector<std::string> NamesOf(const Option& option);
// The long name, or the only one: "--gpus".
std::string NameOf(const Option& option);

// "no", "on-failure", "always" of "no|on-failure|always"; empty where the value is no choice of words.
std::vector<std::string> ChoicesOf(std::string_view value);
// kInvalidArgument: the value is a choice, and the word is none of it.
base::Result<> RequireChoice(std::string_view value, const std::string& word);

inline constexpr std::size_t kAnyNumber = 1'000'000;

// Words of a command line that belong to no option.
struct Argument {
  std::string value;  // what the help calls each: "JOB", "bash|zsh|fish"
  std::size_t least = 1;
  std::size_t most = 1;
  std::string help{};   // empty: what such a value is in every command
  std::string names{};  // options that give one as well: "-t,--tag"
};
using Arguments = std::vector<Argument>;

// An option as it was typed.
struct TypedOption {
  std::string name;   // as NameOf has it
  std::string value;  // empty for an option without one
};

// What was typed for a command.
struct CommandLine {
  std::vector<TypedOption> options;                  // in order
  std::vector<std::string> words;                    // the arguments, or the beginning of a user's command
  std::optional<std::vector<std::string>> trailing;  // the words behind "--"
};

// Calls `take` of the options in order. The error has the option's name in front.
base::Result<> TakeOptions(const Options& options, const std::vector<TypedOption>& typed);

struct Command {
  std::string name;
  std::string summary;  // the list of commands shows the first paragraph
  std::string example;
  Arguments arguments;
  Options options;
  // Does what the command says, after all options were taken; the value is the exit status.
  std::function<base::Result<int>(Session&, const CommandLine&)> run;
  std::vector<Command> commands{};  // below it; one of them is required where `run` is empty
  std::vector<std::string> aliases{};
  // How the command of a user follows, for the usage: "-- COMMAND...". Only then are words behind "--" taken.
  std::string user_command{};
  // The first word that is no option begins the user's command; what is behind it is not read.
  bool ends_at_word = false;
  std::string heading{};  // in the list of commands
  std::string footer{};   // of the help, below the example
};

}  // namespace gpuman::cli
