// Functions that make the commands of `gpuman`; the table in app.cc has them in the order of the help.
#pragma once

#include <vector>

#include "cli/command.h"

namespace gpuman::cli {

namespace queue {
struct ToolCompatibility;
}

Command LogsCommand();
Command UpdateCommand();
Command RestartCommand();
Command RemoveCommand();
Command SuspendCommand();
Command ResumeCommand();
Command MoveCommand();
// `tools` must outlive the command.
Command RunCommand(const queue::ToolCompatibility& tools);
Command SubmitCommand(const queue::ToolCompatibility& tools);
Command QueueCommand(const queue::ToolCompatibility& tools);
Command JobCommand(const queue::ToolCompatibility& tools);
Command CancelCommand(const queue::ToolCompatibility& tools);
Command InfoCommand();
Command StatsCommand();
Command StatusCommand();
Command TopCommand();
Command ProclistCommand();
Command EventsCommand();
Command WhyCommand();
Command WebCommand();
Command HistoryCommand();
Command HealthCommand();
Command DoctorCommand();
Command MetricsCommand();
Command ShareCommand();
Command MpsCommand();
Command MigCommand();
Command GpuCommand();
Command DeviceCommand();
Command ReserveCommand();
Command QuotaCommand();
Command ConfigCommand();
Command CompletionCommand();

// `drain` and `undrain`, which stand below `gpu`.
std::vector<Command> DrainCommands();

// The argument of a command about one job: its tag or id. --tag gives it as well, as in GPUMan.
Argument JobArgument();

}  // namespace gpuman::cli
