// Options as a table, for what has no parser of its own: lines of scripts and of job files, and the programs
// under gflow's names. The parser of `gpuman` takes the same table (bind.cc), so an option has one
// meaning wherever it stands.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gpuman::cli::queue {

struct Option {
  std::string names;  // "-g,--gpus,--gres"
  std::string value;  // what the help calls its value; empty: it takes none
  std::string help;   // empty: not shown, and not completed
  // Takes the value (empty for an option without one). The error needs no name in front.
  std::function<base::Result<>(const std::string& value)> take;
  std::string group{};  // its heading in the help of gpuman; empty: the usual one
};
using Options = std::vector<Option>;

// The long name, or the only one: "--gpus".
std::string NameOf(const Option& option);

enum class Where {
  kAnywhere,  // words that are no options may stand between options
  kLast,      // the first word that is no option ends the options: it begins a command
};

// Calls `take` of each option in order and returns the words that are none. "--name value", "--name=value",
// "-n value", "-nvalue", "-ab" for two that take no value; "--" ends the options. kInvalidArgument names the
// option, and the one that was probably meant.
base::Result<std::vector<std::string>> ParseOptions(const Options& options,
                                                    const std::vector<std::string>& words, Where mode);

// Whether the word is an option whose value is the word behind it.
bool TakesNextWord(const Options& options, std::string_view word);

// One line an option, aligned, as help texts have them.
std::string RenderOptions(const Options& options);

}  // namespace gpuman::cli::queue
