// `gpuman run --pty`: a queued job on the caller's terminal.
//
// The job runs `gpuman __terminal SOCKET COMMAND…`, which runs the command on a pty within the job and
// connects back to the caller over a unix socket in a directory that only the caller may enter. The job's
// output comes unchanged; typed input goes in frames: a letter ('d' data, 'w' window size), four bytes of
// length in the machine's byte order, and that many bytes.
#pragma once

#include <string>
#include <vector>

#include "api/client.h"
#include "api/queue_types.h"
#include "base/result.h"
#include "cli/command_context.h"

namespace gpuman::cli::queue {

inline constexpr const char* kTerminalWord = "__terminal";

// Queues the request's only job, waits until it ends and returns its exit status. While the job waits, Ctrl-C
// takes it out of the queue; when it runs, every key goes to the job. Standard input must be a terminal.
base::Result<int> RunOnTerminal(CommandContext& session, const api::Client& daemon,
                                api::SubmitRequest request);

// The job's side: returns the exit status of the command, 128+N for a signal N, 127 where the command cannot
// be started. `words`: the socket and the command.
base::Result<int> ServeTerminal(const std::vector<std::string>& words);

}  // namespace gpuman::cli::queue
