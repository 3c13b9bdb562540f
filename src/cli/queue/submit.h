// `gpuman submit`, `gpuman run --gpus`: sends jobs to the queue, prints the result, and waits for the jobs
// where that is asked for.
#pragma once

#include <string>
#include <vector>

#include "cli/command_context.h"
#include "cli/queue/request.h"

namespace gpuman::cli::queue {

// The submit context of this process. `tools` must outlive it.
base::Result<SubmitContext> ContextOfThisProcess(const ToolCompatibility& tools);

// Prints what the user should know of the jobs that were made.
void TellNotes(CommandContext& session, const MadeSubmission& made);

// Does the rest once the jobs are made: prints them, or waits for them. Returns the exit status.
using Finish = base::Result<int> (*)(CommandContext& session, const api::Client& daemon,
                                     const MadeSubmission& made, const api::SubmissionAnswer& answer);
// `settings` have the values of the options of `line`.
base::Result<int> Submit(CommandContext& session, SubmitSettings settings, const CommandLine& line,
                         const CommandDialect& dialect, const ToolCompatibility& tools, Finish finish);
// Prints the jobs that were made, or that a dry run would make.
void PrintAnswer(CommandContext& session, const api::Client& daemon, const MadeSubmission& made,
                 const api::SubmissionAnswer& answer);

// Queues the only job, shows its output when it runs, and returns its exit status. Ctrl-C takes the job out
// of the queue while it waits there.
base::Result<int> QueueAndShow(CommandContext& session, MadeSubmission made);
// Queues the only job and prints it.
base::Result<int> QueueAndLeave(CommandContext& session, MadeSubmission made);

// The answer as --json prints it: a single job is the object itself, with the notes in it if there are any.
api::Json JsonOf(const api::SubmissionAnswer& answer);

// "job 7 'train' is queued: no GPU is free; expected start: 14:03". `origins`: as MadeSubmission has them.
std::string RenderSubmitted(const api::SubmitRequest& request, const api::SubmissionAnswer& answer,
                            const std::vector<std::string>& origins, const std::vector<api::GpuView>& gpus,
                            base::WallTime now);

}  // namespace gpuman::cli::queue
