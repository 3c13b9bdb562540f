#include "cli/compat/gflow/programs.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/file.h"
#include "cli/compat/gflow/commands.h"
#include "cli/compat/gflow/dialect.h"
#include "cli/compat/gflow/options.h"
#include "cli/compat/known_tools.h"
#include "cli/completion_scripts.h"
#include "cli/queue/submit.h"
#include "cli/take.h"

namespace gpuman::cli::gflow {
namespace {

using base::Result;
using queue::SubmitSettings;

// gbatch new NAME: writes a template of a script.
Result<int> NewScript(CommandContext& session, const CommandLine& line) {
  const std::string& name = line.words.front();
  const std::string path = name.ends_with(".sh") ? name : name + ".sh";
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

Result<int> PrintSubmitted(CommandContext& session, const api::Client& daemon,
                           const queue::MadeSubmission& made, const api::SubmissionAnswer& answer) {
  if (made.request.dry_run || session.json) {
    queue::PrintAnswer(session, daemon, made, answer);
    return kExitDone;
  }
  const auto& first = answer.jobs.front();
  const std::size_t count = std::max(answer.jobs.size(), first.tasks.size());
  if (count == 1)
    session.Print(kDialect.submitted(std::to_string(first.id), first.tag));
  else
    session.Print(fmt::format("Submitted {} batch jobs with group_id: {}\n", count,
                              made.request.jobs.front().group.value_or(std::to_string(first.id))));
  return kExitDone;
}

Command Gbatch() {
  const auto settings = std::make_shared<SubmitSettings>();  // shared by the options and the action
  Command command{"gbatch",
                  "Queue a script or a command",
                  "gbatch --gpus 1 python train.py",
                  {},
                  GbatchOptions(*settings, base::SystemClock().Wall()),
                  [settings](CommandContext& session, const CommandLine& line) {
                    return queue::Submit(session, *settings, line, kDialect, KnownTools(), PrintSubmitted);
                  }};
  command.user_command = "COMMAND...";
  command.ends_at_word = true;
  return command;
}

Result<int> CloseSessions(CommandContext& session, const CommandLine&) {
  if (session.json)
    session.PrintJson({{"closed", 0}});
  else
    session.Print("There are no sessions to close: gpuman keeps none.\n");
  return kExitDone;
}

// gjob's log has other letters for the lines, and does not follow.
Options LogOptions(const Options& log) {
  return {{"-f,--first", "LINES", "Print only the first lines", queue::OptionNamed(log, "--first").take},
          {"-l,--last", "LINES", "Print only the last lines", queue::OptionNamed(log, "--tail").take}};
}

Command Gjob() {
  constexpr std::string_view kOwnName = "gpuman job";  // with which examples begin
  Command program{"gjob", "Show and change jobs of the queue",       "", {}, {},
                  {},     queue::JobCommands(kDialect, KnownTools())};
  std::erase_if(program.commands, [](const Command& command) { return command.name == "wait"; });
  for (auto& command : program.commands) {
    command.example.replace(0, kOwnName.size(), program.name);
    if (command.name == "log") {
      command.example = "gjob log @ --last 50";
      command.options = LogOptions(command.options);
    }
    if (command.name == "update") command.example = "gjob update 7 --gpus 2 --time-limit 4:00:00";
    if (command.name != "redo") command.aliases = {command.name.substr(0, 1)};
  }
  program.commands.push_back({"close-sessions",
                              "Does nothing: a job has no session that outlives it",
                              "gjob close-sessions --all",
                              {},
                              {{"-j,--jobs", "JOBS", "", take::Nothing()},
                               {"-s,--state", "STATES", "", take::Nothing()},
                               {"-p,--pattern", "TEXT", "", take::Nothing()},
                               {"-a,--all", "", "", take::Nothing()}},
                              CloseSessions,
                              {},
                              {"close"}});
  return program;
}

Command Gcancel() {
  Command command = queue::CancelCommand(KnownTools());
  command.name = "gcancel";
  command.example = "gcancel 1,3,5-7";
  command.options.push_back({"--cancel,--kill", "", "", take::Nothing()});
  command.options.push_back({"--config", "FILE", "", take::Nothing()});
  return command;
}

struct Program {
  std::string_view name;
  Command (*make)();
};
constexpr Program kPrograms[]{{"gbatch", &Gbatch}, {"gqueue", &Gqueue},   {"ginfo", &Ginfo},
                              {"gjob", &Gjob},     {"gcancel", &Gcancel}, {"gctl", &Gctl},
                              {"gstats", &Gstats}, {"gflowd", &Gflowd}};

const Program* Find(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kPrograms), std::end(kPrograms),
                                         [&](const Program& program) { return program.name == name; });
  return found == std::end(kPrograms) ? nullptr : found;
}

Command NewCommand() {
  return {"new",
          "Create a script to fill in",
          "gbatch new train",
          {{.value = "NAME", .help = "Name of the script"}},
          {},
          NewScript};
}

Command CompletionCommand(const std::string& program) {
  return {"completion",
          "Print the completion script for a shell",
          program + " completion bash",
          {{.value = "bash|zsh|fish", .help = "The shell"}},
          {},
          [program](CommandContext& session, const CommandLine& line) -> Result<int> {
            session.PrintOutput(CompletionScript(line.words.front(), program));
            return kExitDone;
          }};
}

}  // namespace

bool IsProgram(std::string_view name) { return Find(name) != nullptr; }

Command MakeProgram(std::string_view name, const std::vector<std::string>& arguments) {
  Command program = Find(name)->make();
  const bool is_batch = program.name == "gbatch";
  program.footer = fmt::format(
      "{}{} completion bash|zsh|fish prints a completion script. It is gpuman under another name.",
      is_batch ? "gbatch new NAME creates a script to fill in.\n" : "", program.name);
  if (!program.commands.empty()) {
    program.commands.push_back(CompletionCommand(program.name));
    return program;
  }
  const auto typed = [&](std::string_view word) { return arguments.size() == 2 && arguments[0] == word; };
  const bool is_new = is_batch && typed("new");
  if (!is_new && !typed("completion")) return program;
  program.commands = {is_new ? NewCommand() : CompletionCommand(program.name)};
  program.arguments.clear();
  program.ends_at_word = false;
  return program;
}

}  // namespace gpuman::cli::gflow
