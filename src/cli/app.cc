#include "cli/app.h"

#include <algorithm>
#include <array>

#include "cli/commands.h"
#include "cli/compat/gflow/programs.h"
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

struct Entry {
  std::string_view name;
  Command (*make)();
  const char* heading;  // in the list of commands
};
// The commands of gpuman in the order of the help.
constexpr std::array kCommands{
    Entry{"run", &RunCommand, kRun},
    Entry{"logs", &LogsCommand, kRun},
    Entry{"update", &UpdateCommand, kRun},
    Entry{"restart", &RestartCommand, kRun},
    Entry{"remove", &RemoveCommand, kRun},
    Entry{"suspend", &SuspendCommand, kRun},
    Entry{"resume", &ResumeCommand, kRun},
    Entry{"move", &MoveCommand, kRun},
    Entry{"submit", &SubmitCommand, kQueue},
    Entry{"queue", &QueueCommand, kQueue},
    Entry{"job", &JobCommand, kQueue},
    Entry{"cancel", &CancelCommand, kQueue},
    Entry{"info", &InfoCommand, kQueue},
    Entry{"stats", &StatsCommand, kQueue},
    Entry{"status", &StatusCommand, kLook},
    Entry{"top", &TopCommand, kLook},
    Entry{"proclist", &ProclistCommand, kLook},
    Entry{"why", &WhyCommand, kLook},
    Entry{"history", &HistoryCommand, kLook},
    Entry{"events", &EventsCommand, kLook},
    Entry{"health", &HealthCommand, kLook},
    Entry{"doctor", &DoctorCommand, kLook},
    Entry{"metrics", &MetricsCommand, kLook},
    Entry{"share", &ShareCommand, kShareGpus},
    Entry{"mps", &MpsCommand, kShareGpus},
    Entry{"mig", &MigCommand, kShareGpus},
    Entry{"gpu", &GpuCommand, kAdminister},
    Entry{"device", &DeviceCommand, kAdminister},
    Entry{"reserve", &ReserveCommand, kAdminister},
    Entry{"quota", &QuotaCommand, kAdminister},
    Entry{"config", &ConfigCommand, kAdminister},
    Entry{"completion", &CompletionCommand, kAdminister},
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
    "Exit status: 0 success, 1 failure, 2 wrong usage, 3 daemon not reachable, 4 no such job or GPU,\n"
    "5 not permitted, 6 not possible on this machine.";

// Makes the program with only the command that the user asks for; with all commands for help, completion and
// misspellings. Setting up options is most of the cost of a short command.
Command Gpuman(std::string_view first) {
  Command program;
  program.name = "gpuman";
  program.summary =
      "Runs programs on NVIDIA GPUs within memory limits, so that one cannot take the others down.";
  program.footer = kFooter;
  const auto asked = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const Entry& entry) { return entry.name == first; });
  for (const auto& entry : kCommands) {
    if (asked != kCommands.end() && entry.name != first) continue;
    program.commands.push_back(entry.make());
    program.commands.back().heading = entry.heading;
  }
  return program;
}

}  // namespace

int RunCli(std::string_view name, const std::vector<std::string>& arguments, const SessionContext& context) {
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (gflow::IsProgram(name)) return RunProgram(gflow::MakeProgram(name, arguments), arguments, context);
  if (name == nvshare::kProgram) return RunProgram(nvshare::MakeProgram(), arguments, context);
  if (first != queue::kTerminalWord) return RunProgram(Gpuman(first), arguments, context);
  const auto served = queue::ServeTerminal({arguments.begin() + 1, arguments.end()});
  if (served) return *served;
  Session(context).PrintError(served.error());
  return ExitStatusOf(served.error().code);
}

}  // namespace gpuman::cli
