// `gpuman run --wait`, `submit --wait`, `job attach`: waits until a job ends and returns its exit status.
#pragma once

#include <string>
#include <vector>

#include "api/client.h"
#include "base/result.h"
#include "cli/command_context.h"

namespace gpuman::cli {

// Shows the job's output on stdout (in JSON mode: the job when it has ended) and returns its exit status,
// 128+N for a signal N, 1 where it never started. As with `docker run` and `srun`, Ctrl-C goes to the job:
// the first SIGINT or SIGTERM is passed on to it, the second one leaves the job running and returns 128+N. If
// the job waits in the queue, Ctrl-C leaves it there, or takes it out.
enum class InterruptPolicy { kLeavesWaiting, kCancelsWaiting };
base::Result<int> WaitForJob(CommandContext& session, const api::Client& daemon, const api::JobView& job,
                             InterruptPolicy interrupted = InterruptPolicy::kLeavesWaiting);

// Shows the job's output, and with `options.follow` the output until the job ends. When `daemon` is lost
// meanwhile (see WaitForEnd), the output continues where it stopped.
base::Result<> ShowLog(CommandContext& session, const api::Client& daemon, const std::string& job,
                       api::LogOptions options, const api::BodySink& show,
                       const api::WaitCancellation& wake = {});

// Returns the job when it has ended. The daemon may restart meanwhile: neither the job nor this wait depends
// on it. kUnavailable: no daemon came back within a minute. `wake` as with api::Client::Wait.
base::Result<api::JobView> WaitForEnd(CommandContext& session, const api::Client& daemon,
                                      const std::string& job, const api::WaitCancellation& wake = {});

// Waits up to a minute for the daemon that follows a lost one; never starts one. Returns `lost` if no daemon
// comes, or if `lost` does not mean that the daemon is away.
base::Result<api::Client> NextDaemon(CommandContext& session, const base::Error& lost,
                                     const api::WaitCancellation& wake);

// Prints what the daemon has noted of a job that has ended. `told`: notes that the user has seen.
void TellNotes(CommandContext& session, const api::JobView& ended, const std::vector<std::string>& told = {});

// For a job that has ended.
int ExitStatusOfJob(const api::JobView& job);

}  // namespace gpuman::cli
