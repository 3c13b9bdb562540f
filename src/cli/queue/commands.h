// The queue's commands as data: `gpuman` binds them to its parser (bind.cc), the programs under gflow's names
// to their own (gflow.cc). Values; the functions within a command share its settings, so a command runs once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/queue/options.h"
#include "cli/queue/settings.h"
#include "cli/session.h"

namespace gpuman::cli::queue {

struct Command {
  std::string name;
  std::string summary;
  std::string example;
  std::string word;  // the kind of its words, for help and completion: "JOB"; empty: the command takes none
  std::size_t least_words = 0;
  std::size_t most_words = 0;
  Options options;
  // Runs the command; called after all options were taken. `words`: the arguments that are not options.
  std::function<base::Result<int>(Session&, const std::vector<std::string>& words)> run;
  std::string word_help{};  // describes words that no other command has
};

inline constexpr std::size_t kAnyNumber = 1'000'000;

Command ListCommand(Flavour flavour);    // queue, gqueue
Command CancelCommand(Flavour flavour);  // cancel, gcancel
std::vector<Command> JobCommands(Flavour flavour);
Command InfoCommand(Flavour flavour);
Command StatsCommand(Flavour flavour);
std::vector<Command> ReserveCommands();
std::vector<Command> QuotaCommands();
std::vector<Command> GpuCommands();  // allow, restrict, ignore-process, choice

// The name of this process's user, as the daemon knows it.
std::string CallersName();

// The refs of jobs; each word may be a list: "7", "7,9", "5-8", "train", "7_3".
base::Result<std::vector<std::string>> JobsOf(const std::vector<std::string>& words);

// For tables of options: a function that parses a text into an optional or plain value.
template <typename Target, typename Parse>
std::function<base::Result<>(const std::string&)> TakeInto(Target& target, Parse parse) {
  return [&target, parse](const std::string& text) -> base::Result<> {
    GPUMAN_ASSIGN(target, parse(text));
    return {};
  };
}
template <typename Target>
std::function<base::Result<>(const std::string&)> TakeText(Target& target) {
  return [&target](const std::string& text) -> base::Result<> {
    target = text;
    return {};
  };
}
template <typename Target>
std::function<base::Result<>(const std::string&)> TakeFlag(Target& target) {
  return [&target](const std::string&) -> base::Result<> {
    target = true;
    return {};
  };
}
std::function<base::Result<>(const std::string&)> TakeWord(std::string& target,
                                                           std::vector<std::string> allowed);

}  // namespace gpuman::cli::queue
