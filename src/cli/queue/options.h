// Options as a table, for readers without the parser of `gpuman`: lines of scripts and of job files, and the
// programs under gflow's names. The parser of `gpuman` uses the same table (bind.cc), so an option has one
// meaning in every place.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuman::cli::queue {

struct Option {
  std::string names;  // "-g,--gpus,--gres"
  std::string value;  // what the help calls its value; empty: the option takes none
  std::string help;   // empty: the option is not shown, and not completed
  // Takes the value (empty for an option without one). Its error does not need the option's name in front.
  std::function<base::Result<>(const std::string& value)> take;
  std::string group{};              // its heading in the help of gpuman; empty: the usual heading
  std::vector<std::string> sets{};  // the options of a job that it sets, by their names in the API
};
using Options = std::vector<Option>;

// "-g", "--gpus", "--gres".
std::vector<std::string> NamesOf(const Option& option);
// The long name, or the only one: "--gpus".
std::string NameOf(const Option& option);

enum class Where {
  kAnywhere,  // words that are not options may stand between options
  kLast,      // the first word that is not an option ends the options: it begins a command
};

// Calls `take` of each option in order and returns the words that are not options. Reads "--name value",
// "--name=value", "-n value", "-nvalue", and "-ab" for two options without a value; "--" ends the options.
// kInvalidArgument names the option, and suggests the nearest one.
base::Result<std::vector<std::string>> ParseOptions(const Options& options,
                                                    const std::vector<std::string>& words, Where mode);

// Whether the word is an option whose value is the next word.
bool TakesNextWord(const Options& options, std::string_view word);

// One line an option, aligned as in help texts.
std::string RenderOptions(const Options& options);

}  // namespace gpuman::cli::queue
