#include "cli/queue/gflow.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/fd.h"
#include "base/file.h"
#include "base/nearest.h"
#include "cli/complete.h"
#include "cli/completion_scripts.h"
#include "cli/queue/gflow_commands.h"
#include "cli/queue/submit.h"

namespace gpuman::cli {
namespace queue {
namespace {

using base::ErrorCode;
using base::Result;
using Words = std::vector<std::string>;

constexpr std::array<std::string_view, 8> kGflowNames{"gbatch",  "gqueue", "ginfo",  "gjob",
                                                      "gcancel", "gctl",   "gstats", "gflowd"};

// gbatch new NAME: writes a template of a script.
Result<int> NewScript(Session& session, const Words& words) {
  const std::string path = words.front().ends_with(".sh") ? words.front() : words.front() + ".sh";
  constexpr std::string_view kText =
      "#!/bin/bash\n"
      "# GFLOW --gpus=1\n"
      "# GFLOW --time=1:00:00\n"
      "# GFLOW --priority=128\n"
      "\n"
      "echo \"running on GPU $CUDA_VISIBLE_DEVICES\"\n";
  auto file = base::OpenFile(path, O_WRONLY | O_CREAT | O_EXCL, 0755);
  if (!file) return base::Fail(std::move(file.error()));
  GPUMAN_TRY(base::WriteAll(file->get(), kText));
  session.Print(fmt::format("Created {}; queue it with: gbatch {}\n", path, path));
  return kExitDone;
}

Command BatchCommand() {
  const auto settings = std::make_shared<SubmitSettings>();  // shared by the options and the action
  Command command;
  command.name = "gbatch";
  command.summary = "Queue a script or a command";
  command.example = "gbatch --gpus 1 python train.py";
  command.word = "COMMAND";
  command.most_words = kAnyNumber;
  command.options = SubmitOptions(*settings, Flavour::kGflow, base::SystemClock().Wall());
  command.run = [settings](Session& session, const Words& words) {
    ParsedCommandLine typed;
    typed.flavour = Flavour::kGflow;
    // The options stand in front of the command; MakeSubmission applies them again after those of a script.
    const auto& all = *session.trailing;
    typed.options.assign(all.begin(), all.end() - static_cast<std::ptrdiff_t>(words.size()));
    if (!typed.options.empty() && typed.options.back() == "--") {
      typed.options.pop_back();
      typed.trailing = words;
    } else {
      typed.words = words;
    }
    return SubmitAsGflow(session, typed);
  };
  return command;
}

GflowProgram Gjob() {
  GflowProgram program{"gjob", "Show and change jobs of the queue", {}};
  for (auto& command : JobCommands(Flavour::kGflow)) {
    const std::string letter = command.name == "redo" ? "" : command.name.substr(0, 1);
    program.commands.push_back({std::move(command), letter.empty() ? Words{} : Words{letter}});
  }
  const auto ignored = [](const std::string&) -> Result<> { return {}; };
  program.commands.push_back({{"close-sessions",
                               "Does nothing: a job has no session that outlives it",
                               "gjob close-sessions --all",
                               "",
                               0,
                               0,
                               {{"-j,--jobs", "JOBS", "", ignored},
                                {"-s,--state", "STATES", "", ignored},
                                {"-p,--pattern", "TEXT", "", ignored},
                                {"-a,--all", "", "", ignored}},
                               [](Session& session, const Words&) -> Result<int> {
                                 session.Print("There are no sessions to close: gpuman keeps none.\n");
                                 return kExitDone;
                               }},
                              {"close"}});
  return program;
}

Result<int> PrintScript(Session& session, const std::string& program, const Words& words) {
  const std::string shell = words.empty() ? "" : words.front();
  const char* script = shell == "bash"   ? kBashCompletion
                       : shell == "zsh"  ? kZshCompletion
                       : shell == "fish" ? kFishCompletion
                                         : nullptr;
  if (script == nullptr)
    return base::Fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a known shell", shell),
                      "bash, zsh or fish");
  std::string text(script);
  for (std::size_t at = 0; (at = text.find("gpuman", at)) != std::string::npos; at += program.size())
    text.replace(at, std::string_view("gpuman").size(), program);
  session.PrintOutput(text);
  return kExitDone;
}

std::string CommandHelp(const GflowProgram& program, const Command& command) {
  const std::string path = command.name == program.name ? program.name : program.name + " " + command.name;
  std::string text =
      fmt::format("{}\n\nUsage: {}{}{}\n", command.summary, path, command.options.empty() ? "" : " [OPTIONS]",
                  command.word.empty() ? "" : " " + command.word + (command.most_words > 1 ? "…" : ""));
  const auto options = RenderOptions(command.options);
  if (!options.empty()) text += "\nOptions:\n" + options;
  if (!command.example.empty()) text += "\nExample:\n  " + command.example + "\n";
  return text;
}

std::string ProgramHelp(const GflowProgram& program) {
  std::string text;
  if (program.commands.size() == 1) text = CommandHelp(program, program.commands.front().command);
  if (program.commands.size() > 1) {
    text = fmt::format("{}\n\nUsage: {} COMMAND [OPTIONS]\n\nCommands:\n", program.summary, program.name);
    for (const auto& [command, aliases] : program.commands)
      text += fmt::format("  {:<22}{}\n", command.name, command.summary);
  }
  if (program.name == "gbatch") text += "\ngbatch new NAME creates a script to fill in.\n";
  return text +
         fmt::format(
             "\n{} completion bash|zsh|fish prints a completion script. It is gpuman under another name.\n",
             program.name);
}

// The command that the words begin with; removes its name from the words.
const Command* Choose(const GflowProgram& program, Words& words) {
  if (program.commands.size() == 1) return &program.commands.front().command;
  for (std::size_t count : {std::size_t{2}, std::size_t{1}}) {
    if (words.size() < count) continue;
    const std::string name = count == 2 ? words[0] + " " + words[1] : words[0];
    for (const auto& [command, aliases] : program.commands) {
      if (command.name != name && std::find(aliases.begin(), aliases.end(), name) == aliases.end()) continue;
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count));
      return &command;
    }
  }
  return nullptr;
}

base::Error UnknownCommand(const GflowProgram& program, const Words& words) {
  Words names;
  for (const auto& [command, aliases] : program.commands) names.push_back(command.name);
  const std::string asked = words.empty() ? "" : words.front();
  base::Error error{ErrorCode::kInvalidArgument,
                    asked.empty() ? fmt::format("{}: a command is missing", program.name)
                                  : fmt::format("{}: unknown command '{}'", program.name, asked),
                    fmt::format("see {} --help", program.name)};
  if (const auto nearest = base::Nearest(asked, names))
    error.hint = fmt::format("did you mean '{}'?", *nearest);
  return error;
}

Result<int> Run(Session& session, const GflowProgram& program, const Command& command,
                const Words& arguments) {
  const bool last = command.word == "COMMAND";
  session.trailing = arguments;
  auto words = ParseOptions(command.options, arguments, last ? queue::Where::kLast : queue::Where::kAnywhere);
  if (!words) {
    if (words.error().hint.empty()) words.error().hint = fmt::format("see {} --help", program.name);
    return base::Fail(std::move(words.error()));
  }
  if (words->size() < command.least_words)
    return base::Fail(ErrorCode::kInvalidArgument,
                      fmt::format("{} {}: {} is missing", program.name,
                                  command.name == program.name ? "" : command.name, command.word),
                      fmt::format("such as {}", command.example));
  if (words->size() > command.most_words)
    return base::Fail(ErrorCode::kInvalidArgument,
                      fmt::format("unexpected argument '{}'", (*words)[command.most_words]),
                      fmt::format("see {} --help", program.name));
  return command.run(session, *words);
}

// Prints names of options and commands, and jobs where a job may stand; the lines are as in cli/complete.h.
int PrintGflowCandidates(Session& session, const GflowProgram& program, Words words) {
  const std::string last = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  std::vector<Candidate> found;
  Words rest = words;
  const Command* command = Choose(program, rest);
  const auto add = [&](const std::string& text, const std::string& help) {
    if (text.starts_with(last) || text.starts_with(':')) found.push_back({text, help});
  };
  if (command == nullptr) {
    for (const auto& [one, aliases] : program.commands) {
      const auto blank = one.name.find(' ');
      if (words.empty())
        add(one.name.substr(0, blank), one.summary);
      else if (blank != std::string::npos && one.name.substr(0, blank) == words.front())
        add(one.name.substr(blank + 1), one.summary);
    }
  } else if (last.starts_with('-')) {
    for (const auto& option : command->options)
      if (!option.help.empty()) add(NameOf(option), option.help);
  } else if (command->word == "COMMAND") {
    const bool typed =
        std::any_of(rest.begin(), rest.end(), [](const auto& word) { return !word.starts_with('-'); });
    add(typed ? ":files" : ":command", "");
  } else if (command->word == "JOB") {
    if (const auto daemon = session.RunningDaemon())
      if (const auto jobs = daemon->Jobs(/*all=*/false))
        for (const auto& job : jobs->jobs) add(std::to_string(job.id), job.tag);
  }
  for (const auto& [text, help] : found) session.Print(fmt::format("{}\t{}\n", text, Printable(help)));
  return kExitDone;
}

}  // namespace

GflowProgram GflowProgramOf(std::string_view name) {
  if (name == "gjob") return Gjob();
  if (name == "gctl") return Gctl();
  if (name == "gflowd") return Gflowd();
  Command only = name == "gbatch"    ? BatchCommand()
                 : name == "gqueue"  ? ListCommand(Flavour::kGflow)
                 : name == "gcancel" ? CancelCommand(Flavour::kGflow)
                 : name == "gstats"  ? StatsCommand(Flavour::kGflow)
                                     : InfoCommand(Flavour::kGflow);
  return {std::string(name), only.summary, {{std::move(only), {}}}};
}

}  // namespace queue

bool IsGflowName(std::string_view program) {
  return std::find(queue::kGflowNames.begin(), queue::kGflowNames.end(), program) != queue::kGflowNames.end();
}

int RunGflow(std::string_view name, const std::vector<std::string>& arguments,
             const SessionContext& context) {
  using namespace queue;  // NOLINT(google-build-using-namespace)
  Session session(context);
  const GflowProgram program = GflowProgramOf(name);
  const std::string first = arguments.empty() ? "" : arguments.front();
  std::vector<std::string> rest = arguments;
  const auto fail = [&](const base::Error& error) {
    session.PrintError(error);
    return ExitStatusOf(error.code);
  };
  if (first == "-h" || first == "--help" || first == "help") {
    session.Print(ProgramHelp(program));
    return kExitDone;
  }
  if (first == "-V" || first == "--version") {
    session.Print(fmt::format("{} (gpuman {})\n", program.name, GPUMAN_VERSION));
    return kExitDone;
  }
  if (first == kCompleteWord) return PrintGflowCandidates(session, program, {rest.begin() + 1, rest.end()});
  const auto after_first = [&] { return std::vector<std::string>(rest.begin() + 1, rest.end()); };
  base::Result<int> status = kExitDone;
  if (first == "completion" && rest.size() == 2) {
    status = PrintScript(session, program.name, after_first());
  } else if (name == "gbatch" && first == "new" && rest.size() == 2) {
    status = NewScript(session, after_first());
  } else {
    const Command* command = Choose(program, rest);
    if (command == nullptr) return fail(UnknownCommand(program, rest));
    if (!rest.empty() && (rest.front() == "--help" || rest.front() == "-h")) {
      session.Print(CommandHelp(program, *command));
      return kExitDone;
    }
    status = Run(session, program, *command, rest);
  }
  if (!status) return fail(status.error());
  context.out.flush();
  return context.out.good() ? *status : kExitFailed;
}

}  // namespace gpuman::cli
