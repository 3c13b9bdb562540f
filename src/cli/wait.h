// `gpuman run --wait`, `submit --wait`, `job attach`: stays with a job until it ends, and ends as it did.
#pragma once

#include "api/client.h"
#include "base/result.h"
#include "cli/session.h"

namespace gpuman::cli {

// Shows the job's output on stdout (in JSON mode: the job when it has ended) and returns its exit status,
// 128+N for a signal N, 1 where it never started. As with `docker run` and `srun`, Ctrl-C goes to the job:
// the first SIGINT or SIGTERM is passed on to it, the second one leaves the job running and returns 128+N.
// Of a job in the queue, Ctrl-C leaves it there, or takes it out.
enum class Interrupted { kLeavesWaiting, kCancelsWaiting };
base::Result<int> WaitForJob(Session& session, const api::Client& daemon, const api::JobView& job,
                             Interrupted interrupted = Interrupted::kLeavesWaiting);

// What the job wrote, and with `options.follow` what it writes until it ends. `daemon` may be lost meanwhile
// (see WaitForEnd): it goes on where it stopped.
base::Result<> ShowLog(Session& session, const api::Client& daemon, const std::string& job,
                       api::LogOptions options, const api::BodySink& show, const api::Wake& wake = {});

// The job as it ended. The daemon may be restarted meanwhile: a job does not depend on it, and neither does
// who waits for it. kUnavailable: no daemon came back within a minute. `wake` as with api::Client::Wait.
base::Result<api::JobView> WaitForEnd(Session& session, const api::Client& daemon, const std::string& job,
                                      const api::Wake& wake = {});

// The daemon that comes after one that was lost by `lost`, within a minute; one is never started. Else, and
// where `lost` means something else than that it is away, `lost`.
base::Result<api::Client> NextDaemon(Session& session, const base::Error& lost, const api::Wake& wake);

// Of a job that has ended.
int ExitStatusOfJob(const api::JobView& job);

}  // namespace gpuman::cli
