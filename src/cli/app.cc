#include "cli/app.h"

#include <algorithm>
#include <array>

#include "cli/commands.h"
#include "cli/compat/gflow/programs.h"
#include "cli/compat/known_tools.h"
#include "cli/compat/nvshare/nvsharectl.h"
#include "cli/program.h"
#include "cli/queue/terminal.h"

namespace gpuman::cli {
namespace {

constexpr const char* kRun = "Run jobs at once";
constexpr const char* kQueue = "Queue jobs";
constexpr const char* kLook = "Look";
constexpr const char* kShareGpus = "Share and split GPUs";
constexpr const char* kAdminister = "Administer";

struct CommandRow {
  std::string_view name;
  Command (*make)();
  const char* heading;  // in the list of commands
};
template <Command (*kMake)(const queue::ToolCompatibility&)>
Command WithOtherTools() {
  return kMake(KnownTools());
}
// The commands of gpuman in the order of the help.
constexpr std::array kCommands{
    CommandRow{"run", &WithOtherTools<RunCommand>, kRun},
    CommandRow{"logs", &LogsCommand, kRun},
    CommandRow{"update", &UpdateCommand, kRun},
    CommandRow{"restart", &RestartCommand, kRun},
    CommandRow{"remove", &RemoveCommand, kRun},
    CommandRow{"suspend", &SuspendCommand, kRun},
    CommandRow{"resume", &ResumeCommand, kRun},
    CommandRow{"move", &MoveCommand, kRun},
    CommandRow{"submit", &WithOtherTools<SubmitCommand>, kQueue},
    CommandRow{"queue", &WithOtherTools<QueueCommand>, kQueue},
    CommandRow{"job", &WithOtherTools<JobCommand>, kQueue},
    CommandRow{"cancel", &WithOtherTools<CancelCommand>, kQueue},
    CommandRow{"info", &InfoCommand, kQueue},
    CommandRow{"stats", &StatsCommand, kQueue},
    CommandRow{"status", &StatusCommand, kLook},
    CommandRow{"top", &TopCommand, kLook},
    CommandRow{"web", &WebCommand, kLook},
    CommandRow{"proclist", &ProclistCommand, kLook},
    CommandRow{"why", &WhyCommand, kLook},
    CommandRow{"history", &HistoryCommand, kLook},
    CommandRow{"events", &EventsCommand, kLook},
    CommandRow{"health", &HealthCommand, kLook},
    CommandRow{"doctor", &DoctorCommand, kLook},
    CommandRow{"metrics", &MetricsCommand, kLook},
    CommandRow{"share", &ShareCommand, kShareGpus},
    CommandRow{"mps", &MpsCommand, kShareGpus},
    CommandRow{"mig", &MigCommand, kShareGpus},
    CommandRow{"gpu", &GpuCommand, kAdminister},
    CommandRow{"device", &DeviceCommand, kAdminister},
    CommandRow{"reserve", &ReserveCommand, kAdminister},
    CommandRow{"quota", &QuotaCommand, kAdminister},
    CommandRow{"config", &ConfigCommand, kAdminister},
    CommandRow{"completion", &CompletionCommand, kAdminister},
};

constexpr const char* kFooter =
    "Examples:\n"
    "  gpuman run --tag train --memory 8GiB -- python train.py\n"
    "  gpuman submit --gpus 1 --time 2h -- python train.py\n"
    "  gpuman status\n"
    "  gpuman logs train -f\n"
    "\n"
    "gpuman COMMAND --help shows the options of a command and examples.\n"
    "\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage, 3 daemon not reachable,\n"
    "4 no such job, GPU, file or command, 5 not permitted, 6 not possible on this machine.";

// Makes the program with only the command that the user asks for; with all commands for help, completion and
// misspellings. Setting up options is most of the cost of a short command.
Command Gpuman(std::string_view first) {
  Command program;
  program.name = "gpuman";
  program.summary =
      "Runs programs on NVIDIA GPUs within memory limits, so that one cannot take the others down.";
  program.footer = kFooter;
  const auto asked = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const CommandRow& entry) { return entry.name == first; });
  for (const auto& entry : kCommands) {
    if (asked != kCommands.end() && entry.name != first) continue;
    program.commands.push_back(entry.make());
    program.commands.back().heading = entry.heading;
  }
  return program;
}

}  // namespace

Command GpumanProgram() { return Gpuman(""); }

int RunCli(std::string_view name, const std::vector<std::string>& arguments, const ProgramContext& context) {
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (gflow::IsProgram(name)) return RunProgram(gflow::MakeProgram(name, arguments), arguments, context);
  if (name == nvshare::kProgram) return RunProgram(nvshare::MakeProgram(), arguments, context);
  if (first != queue::kTerminalWord) return RunProgram(Gpuman(first), arguments, context);
  const auto served = queue::ServeTerminal({arguments.begin() + 1, arguments.end()});
  if (served) return *served;
  CommandContext(context).PrintError(served.error());
  return ExitStatusOf(served.error().code);
}

}  // namespace gpuman::cli
