// The queue's commands, for `gpuman` and for programs under other names.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"
#include "cli/queue/settings.h"

namespace gpuman::cli::queue {

struct JobListOptions;
struct ToolCompatibility;

// `tools` must outlive the commands. The examples are of `gpuman job`, also in another dialect.
Command ListCommand(JobListOptions form, const ToolCompatibility& tools);
Command CancelCommand(const ToolCompatibility& tools);
std::vector<Command> JobCommands(const CommandDialect& dialect, const ToolCompatibility& tools);
Command InfoCommand();
Command StatsCommand();
std::vector<Command> ReserveCommands();
std::vector<Command> QuotaCommands();
std::vector<Command> GpuCommands();  // allow, restrict, ignore-process, choice

// The argument JOB, GPU or ID, with the same help in every command. The command takes at least one and at
// most `most` of them.
Argument UsualArgument(const std::string& value, std::size_t most = 1);

// The name of this process's user, as the daemon knows it.
std::string CallersName();

// The GPUs as the queue sees them; empty: the daemon does not tell.
std::vector<api::QueueGpu> GpusOf(const api::Client& daemon);

// Notes a user name that this machine does not know: the name is mistyped, or a directory service does not
// answer now.
void NoteStranger(CommandContext& session, const std::string& user);

// The refs of jobs; each word may be a list: "7", "7,9", "5-8", "train", "7_3".
base::Result<std::vector<std::string>> JobsOf(const std::vector<std::string>& words);

}  // namespace gpuman::cli::queue
