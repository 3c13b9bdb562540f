#include "cli/app.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/nearest.h"
#include "cli/command.h"
#include "cli/complete.h"
#include "cli/hints.h"
#include "cli/queue/terminal.h"

namespace gpuman::cli {
namespace {

struct Command {
  std::string_view name;
  void (*add)(const Registry&);
  const char* group;  // the heading in the list of commands
};
constexpr const char* kRun = "Run jobs at once";
constexpr const char* kQueue = "Queue jobs";
constexpr const char* kLook = "Look";
constexpr const char* kShareGpus = "Share and split GPUs";
constexpr const char* kAdminister = "Administer";
// The commands in the order of the help.
constexpr std::array kCommands{
    Command{"run", &AddRun, kRun},
    Command{"logs", &AddLogs, kRun},
    Command{"update", &AddUpdate, kRun},
    Command{"restart", &AddRestart, kRun},
    Command{"remove", &AddRemove, kRun},
    Command{"suspend", &AddSuspend, kRun},
    Command{"resume", &AddResume, kRun},
    Command{"move", &AddMove, kRun},
    Command{"submit", &AddSubmit, kQueue},
    Command{"queue", &AddQueue, kQueue},
    Command{"job", &AddJob, kQueue},
    Command{"cancel", &AddCancel, kQueue},
    Command{"info", &AddInfo, kQueue},
    Command{"stats", &AddStats, kQueue},
    Command{"status", &AddStatus, kLook},
    Command{"top", &AddTop, kLook},
    Command{"proclist", &AddProclist, kLook},
    Command{"events", &AddEvents, kLook},
    Command{"health", &AddHealth, kLook},
    Command{"doctor", &AddDoctor, kLook},
    Command{"metrics", &AddMetrics, kLook},
    Command{"share", &AddShare, kShareGpus},
    Command{"mps", &AddMps, kShareGpus},
    Command{"mig", &AddMig, kShareGpus},
    Command{"gpu", &AddGpu, kAdminister},
    Command{"device", &AddDevice, kAdminister},
    Command{"reserve", &AddReserve, kAdminister},
    Command{"quota", &AddQuota, kAdminister},
    Command{"config", &AddConfig, kAdminister},
    Command{"completion", &AddCompletion, kAdminister},
};

// Adds the command that the user asks for; adds all commands for help, completion and misspellings. Setting
// up options is most of what a short command costs.
void AddCommands(const Registry& registry, std::string_view first) {
  const auto asked = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const Command& command) { return command.name == first; });
  if (asked != kCommands.end()) return asked->add(registry);
  for (const auto& command : kCommands) {
    command.add(registry);
    registry.root.get_subcommand(std::string(command.name))->group(command.group);
  }
}

constexpr const char* kExamples =
    "Examples:\n"
    "  gpuman run --tag train --memory 8GiB -- python train.py\n"
    "  gpuman submit --gpus 1 --time 2h -- python train.py\n"
    "  gpuman status\n"
    "  gpuman logs train -f\n"
    "\n"
    "gpuman COMMAND --help shows the options of a command and examples.\n"
    "\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage, 3 daemon not reachable, 4 no such job or GPU,\n"
    "5 not permitted, 6 not possible on this machine.";

constexpr const char* kCommonGroup = "Options of every command";

void AddCommonOptions(CLI::App& app, Session& session) {
  app.add_flag("--json", session.json, "Print JSON: bytes as integers, times in UTC, null for unknown")
      ->group(kCommonGroup);
  app.add_option("--socket", session.socket,
                 "Socket of the daemon to use (default: GPUMAN_SOCKET, else the machine's, else your own)")
      ->type_name(kFileValue)
      ->group(kCommonGroup);
}

// Adds to the usage the command that a job runs: the parser does not know of it.
class Help : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = CLI::Formatter::make_usage(app, std::move(name));
    const auto end = usage.find_last_not_of('\n') + 1;
    if (app->get_name() == "submit")
      usage.insert(end, " (-- COMMAND... | SCRIPT ARGUMENTS... | --jobs FILE)");
    if (app->get_name() == "run") usage.insert(end, " (-- COMMAND... | --command STRING)");
    return usage;
  }

  // The usage and the list both show an argument as its kind of value: "JOB...".
  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = option->get_type_name() + (TakesSeveral(option) ? "..." : "");
    return option->get_required() ? name : "[" + name + "]";
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    if (!is_positional) return CLI::Formatter::make_option(option, false);
    std::ostringstream line;
    CLI::detail::format_help(line, option->get_type_name() + (TakesSeveral(option) ? "..." : ""),
                             option->get_description(), column_width_);
    return line.str();
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return {};
    std::string text = option->get_type_name().empty() ? "" : " " + option->get_type_name();
    if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
    // An option that also serves as a positional argument is not required by itself.
    return option->get_required() && !option->get_positional() ? text + " (required)" : text;
  }

  // The list shows the first paragraph of the summary.
  std::string make_subcommand(const CLI::App* sub) const override {
    const std::string summary = sub->get_description();
    std::ostringstream line;
    CLI::detail::format_help(line, sub->get_name(), summary.substr(0, summary.find("\n\n")), column_width_);
    return line.str();
  }

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    if (mode == CLI::AppFormatMode::Sub) return CLI::Formatter::make_help(app, std::move(name), mode);
    return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) + Groups(app) +
           make_subcommands(app, mode) + "\n" + make_footer(app);
  }

 private:
  static bool TakesSeveral(const CLI::Option* option) { return option->get_expected_max() > 1; }

  // The command's own options come first, the options of every command last.
  std::string Groups(const CLI::App* app) const {
    auto groups = app->get_groups();
    std::stable_partition(groups.begin(), groups.end(),
                          [](const std::string& group) { return group != kCommonGroup; });
    std::string text;
    for (const auto& group : groups) {
      const auto options = app->get_options(
          [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
      if (!group.empty() && !options.empty()) text += make_group(group, false, options);
    }
    return text;
  }
};

// Splits at the first "--": all words behind it belong to the job, whatever they look like.
struct Arguments {
  std::vector<std::string> ours;
  std::optional<std::vector<std::string>> trailing;
};
Arguments SplitAtDashes(const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  Arguments split;
  split.ours.assign(arguments.begin(), dashes);
  if (dashes != arguments.end()) split.trailing.emplace(dashes + 1, arguments.end());
  return split;
}

// `gpuman help run` is `gpuman run --help`, and `gpuman version` is `gpuman --version`.
std::vector<std::string> WithHelpAsOption(std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  if (arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  } else if (arguments.front() == "version") {
    arguments.front() = "--version";
  }
  return arguments;
}

// What the command line lacks, in the words of the help; empty: the error is another one.
std::string Missing(const CLI::App& command, const CLI::ParseError& error) {
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::RequiredError)) return {};
  std::vector<std::string> names;
  for (const auto* sub : command.get_subcommands(nullptr)) names.push_back(sub->get_name());
  if (!names.empty())
    return fmt::format("a command is required{} {}", names.size() == 1 ? ":" : ", one of",
                       fmt::join(names, ", "));
  for (const auto* option : command.get_options())
    if (option->get_required() && option->get_positional() && option->count() == 0)
      return fmt::format("{} is required", option->get_type_name());
  return {};
}

// The first line below "Example:" in the help.
std::string ExampleOf(const CLI::App& command) {
  constexpr std::string_view kBegin = "Example:\n  ";
  const std::string footer = command.get_footer();
  if (!footer.starts_with(kBegin)) return {};
  return footer.substr(kBegin.size(), footer.find('\n', kBegin.size()) - kBegin.size());
}

// Rewords what the parser says about a value: "--policy: best not in {fair,fcfs}", "Could not convert:
// --since = x".
std::string Reworded(const std::string& text) {
  constexpr std::string_view kSet = " not in {";
  constexpr std::string_view kConvert = "Could not convert: ";
  if (const auto set = text.find(kSet); set != text.npos && text.ends_with('}')) {
    const auto begin = text.find(": ");
    if (begin == text.npos || begin > set) return text;
    std::string words = text.substr(set + kSet.size());
    words.pop_back();
    for (std::size_t at = 0; (at = words.find(',', at)) != words.npos; at += 2) words.insert(at + 1, " ");
    return fmt::format("{}: '{}' is not one of {}", text.substr(0, begin),
                       text.substr(begin + 2, set - begin - 2), words);
  }
  const auto equals = text.find(" = ");
  if (text.starts_with(kConvert) && equals != text.npos)
    return fmt::format("{}: '{}' is not a number", text.substr(kConvert.size(), equals - kConvert.size()),
                       text.substr(equals + 3));
  return text;
}

base::Error UsageError(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App* command = &root;
  std::string path = "gpuman";
  std::string where;  // goes in front of the message, which already begins with "gpuman: "
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
    where = path.substr(std::string_view("gpuman ").size()) + ": ";
  }
  base::Error usage{base::ErrorCode::kInvalidArgument, Reworded(error.what()),
                    fmt::format("see {} --help", path)};
  if (const auto missing = Missing(*command, error); !missing.empty()) {
    usage.message = where + missing;
    const auto example = ExampleOf(*command);
    if (!example.empty() && command->get_subcommands(nullptr).empty()) usage.hint = "for example: " + example;
  }
  const auto extras = root.remaining(/*recurse=*/true);
  const bool has_subcommands = !command->get_subcommands(nullptr).empty();
  const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (extras.empty()) return usage;

  const std::string& first = extras.front();
  const std::string known_hint = HintFor(path, first);
  if (!is_extra && !has_subcommands) {
    if (!known_hint.empty()) usage.hint = known_hint;
    return usage;
  }
  if (first.starts_with('-') && first.size() > 1) {
    usage.message = fmt::format("{}unknown option '{}'", where, first);
    std::vector<std::string> names;
    for (const auto* option : command->get_options())
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    if (const auto nearest = base::Nearest(first.substr(0, first.find('=')), names))
      usage.hint = fmt::format("did you mean {}?", *nearest);
  } else if (!has_subcommands) {
    usage.message = fmt::format("{}unexpected argument '{}'", where, first);
    if (command->get_name() == "run")
      usage.hint = fmt::format("write the job's command after --: gpuman run {} -- {} …",
                               command->get_option("--gpus")->count() > 0 ? "--gpus N" : "--tag NAME", first);
  } else {
    usage.message = fmt::format("{}unknown command '{}'", where, first);
    std::vector<std::string> names;
    for (const auto* sub : command->get_subcommands(nullptr)) names.push_back(sub->get_name());
    if (const auto nearest = base::Nearest(first, names))
      usage.hint = fmt::format("did you mean '{}'?", *nearest);
  }
  if (!known_hint.empty()) usage.hint = known_hint;
  return usage;
}

// The error for the help of a command that does not exist; the parser would print the help of the parent
// command.
std::optional<base::Error> WithoutHelp(const CLI::App& root) {
  const CLI::App* command = &root;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const auto extras = root.remaining(/*recurse=*/true);
  if (command->get_subcommands(nullptr).empty() || extras.empty() || extras.front().starts_with('-'))
    return std::nullopt;
  return UsageError(root, CLI::ExtrasError(extras));
}

void PrintVersion(Session& session) {
  if (session.json)
    session.PrintJson({{"version", GPUMAN_VERSION}});
  else
    session.Print("gpuman " GPUMAN_VERSION "\n");
}

}  // namespace

CLI::App* Registry::Add(const std::string& name, const std::string& summary, const std::string& example,
                        Action action, CLI::App* parent) const {
  CLI::App* command = (parent != nullptr ? *parent : root).add_subcommand(name, summary);
  AddCommonOptions(*command, session);
  if (!example.empty()) command->footer("Example:\n  " + example);
  if (action)
    command->callback([&chosen_action = chosen, action = std::move(action)] { chosen_action = action; });
  return command;
}

CLI::Option* AddJobArgument(CLI::App* command, std::string& job) {
  return command->add_option("job,-t,--tag", job, "Tag or id of the job")->type_name(kJobValue)->required();
}

int RunCli(const std::vector<std::string>& typed, const SessionContext& context) {
  Session session(context);
  const auto arguments = WithHelpAsOption(typed);
  if (!arguments.empty() && arguments.front() == queue::kTerminalWord) {
    const auto served = queue::ServeTerminal({arguments.begin() + 1, arguments.end()});
    if (!served) session.PrintError(served.error());
    return served ? *served : ExitStatusOf(served.error().code);
  }
  Action chosen;
  CLI::App app("Runs programs on NVIDIA GPUs within memory limits, so that one cannot take the others down.",
               "gpuman");
  bool version = false;
  app.add_flag("-v,--version", version, "Print the version and exit");
  AddCommonOptions(app, session);
  app.get_option("--help")->description("Print this help and exit");
  app.footer(kExamples);
  app.formatter(std::make_shared<Help>());
  app.get_formatter()->column_width(28);
  const Registry registry{app, session, chosen};
  AddCommands(registry, arguments.empty() ? std::string_view() : arguments.front());

  if (!arguments.empty() && arguments.front() == kCompleteWord)
    return PrintCandidates(app, session, {arguments.begin() + 1, arguments.end()});

  // The parser has not seen --json yet, and a wrong command line may never get that far.
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  auto [ours, trailing] = SplitAtDashes(arguments);
  session.trailing = std::move(trailing);
  std::reverse(ours.begin(), ours.end());  // the parser takes them from the back
  try {
    app.parse(std::move(ours));
  } catch (const CLI::CallForHelp&) {
    if (const auto unknown = WithoutHelp(app)) {
      session.json = json;
      session.PrintError(*unknown);
      return kExitUsage;
    }
    session.Print(app.help());
    return kExitDone;
  } catch (const CLI::ParseError& error) {
    session.json = json;
    session.PrintError(UsageError(app, error));
    return kExitUsage;
  }
  if (version) {
    PrintVersion(session);
    return kExitDone;
  }
  if (!chosen) {
    context.err << app.help();
    return kExitUsage;
  }
  const std::string& command = app.get_subcommands().front()->get_name();
  if (session.trailing && command != "run" && command != "submit") {
    session.PrintError(
        {base::ErrorCode::kInvalidArgument, "only run and submit take a command after --", {}});
    return kExitUsage;
  }
  const auto status = chosen(session);
  if (!status) {
    session.PrintError(status.error());
    return ExitStatusOf(status.error().code);
  }
  context.out.flush();
  return context.out.good() ? *status : kExitFailed;
}

}  // namespace gpuman::cli
