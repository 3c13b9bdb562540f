// A command of the command line as data: its name, the options and arguments that it takes, and what it does.
// The parser (parser.h) reads a command line by this data and shows the help; the completion of the shells
// (complete.h) proposes words by it. Lines of scripts and of job files have options of the same tables.
//
// A command runs once: its options write their values into settings that its action reads, and no code resets
// these settings. Not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/command_context.h"

namespace gpuman::cli {

// What the value of an option or an argument is, for help and completion. "no|yes" is a choice: the program
// refuses every other word.
inline constexpr const char* kJobValue = "JOB";
inline constexpr const char* kGpuValue = "GPU";
inline constexpr const char* kFileValue = "FILE";
inline constexpr const char* kSizeValue = "SIZE";
inline constexpr const char* kTimeValue = "TIME";
inline constexpr const char* kRestartValue = "no|on-failure|always";

// Takes the value of an option; the value of an option without one is empty. Errors do not name the option:
// TakeOptions does.
using Take = std::function<base::Result<>(const std::string& value)>;

struct Option {
  std::string names;  // "-g,--gpus,--gres"
  std::string value;  // what the help calls its value; empty: the option takes no value
  std::string help;   // empty: neither the help nor the completion shows the option
  Take take;
  std::string heading{};  // the help lists the option below it; empty: below "Options"
  std::string sets{};     // the API's name of the field that it sets, of a job or a reservation; empty: none
  bool required = false;
};
using Options = std::vector<Option>;

// "-g", "--gpus", "--gres".
std::vector<std::string> NamesOf(const Option& option);
// The long name, or the only one: "--gpus".
std::string NameOf(const Option& option);

// "no", "on-failure", "always" of "no|on-failure|always"; empty where the value is no choice.
std::vector<std::string> ChoicesOf(std::string_view value);
// kInvalidArgument: the value is a choice, and the word is not one of its words.
base::Result<> RequireChoice(std::string_view value, const std::string& word);

inline constexpr std::size_t kAnyNumber = 1'000'000;

// Words of a command line that are neither options nor their values.
struct Argument {
  std::string value;  // what the help calls each: "JOB", "bash|zsh|fish"
  std::size_t least = 1;
  std::size_t most = 1;
  std::string help{};   // empty: the help shows only the kind of value
  std::string names{};  // an option that gives the argument, too: "-t,--tag"; only for the first argument
};
using Arguments = std::vector<Argument>;

// An option as it was typed.
struct ParsedOption {
  std::string name;   // as NameOf has it
  std::string value;  // empty for an option without one
};

// What was typed for a command.
struct CommandLine {
  std::vector<ParsedOption> options;                 // in the order in which they were typed
  std::vector<std::string> words;                    // the arguments, or a user's command without "--"
  std::optional<std::vector<std::string>> trailing;  // a user's command behind "--"
};

// What the help says about the options that the parser adds: to each command, and to the program.
inline constexpr const char* kHelpOfHelp = "Print this help and exit";
inline constexpr const char* kHelpOfVersion = "Print the version and exit";
// The heading of the options that every command has; the help lists them last.
inline constexpr const char* kCommonHeading = "Options of every command";

// Calls `take` of the options in the order in which they were typed. An error begins with the option's name.
base::Result<> TakeOptions(const Options& options, const std::vector<ParsedOption>& typed);

struct Command {
  std::string name;
  std::string summary;  // the list of commands shows the first paragraph
  std::string example;
  Arguments arguments;
  Options options;
  // Does what the command is for, once TakeOptions took all options. Returns the exit status. Empty: the
  // command only has commands below it, and one of them is required.
  std::function<base::Result<int>(CommandContext&, const CommandLine&)> run;
  std::vector<Command> commands{};  // below it
  std::vector<std::string> aliases{};
  // How a user's command follows, as the usage shows it: "-- COMMAND...". Empty: no such command follows, and
  // words behind "--" are arguments.
  std::string user_command{};
  // The first word that is no option begins the user's command. The parser reads no word behind it: an option
  // or a "--" there belongs to the user's command.
  bool ends_at_word = false;
  std::string heading{};  // the list of commands shows the command below it; empty: below "Subcommands"
  std::string footer{};   // the end of the help
};

// The command directly below `command` that has this name or alias; nullptr: there is none.
const Command* FindCommand(const Command& command, std::string_view word);

}  // namespace gpuman::cli
