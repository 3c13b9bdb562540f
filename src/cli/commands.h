// The commands of `gpuman`, each made by a function; app.cc has the table.
#pragma once

#include <vector>

#include "cli/command.h"

namespace gpuman::cli {

Command RunCommand();
Command LogsCommand();
Command UpdateCommand();
Command RestartCommand();
Command RemoveCommand();
Command SuspendCommand();
Command ResumeCommand();
Command MoveCommand();
Command SubmitCommand();
Command QueueCommand();
Command JobCommand();
Command CancelCommand();
Command InfoCommand();
Command StatsCommand();
Command StatusCommand();
Command TopCommand();
Command ProclistCommand();
Command EventsCommand();
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

// drain, undrain: below `gpu`.
std::vector<Command> DrainCommands();

// The argument that is the job that a command is about; --tag gives it, too, as in the first tool of this
// kind.
Argument JobArgument();

}  // namespace gpuman::cli
