// `gpuman run --pty`: a queued job on the caller's terminal.
//
// The job's command is put behind `gpuman __terminal SOCKET`, which runs it on a terminal of its own (a pty)
// within the job and connects back to the caller over a unix socket in a directory that only the caller may
// enter. What the job writes comes as it is; what is typed goes in frames: a letter ('d' data, 'w' window
// size), four bytes of length in the machine's order, and so many bytes.
#pragma once

#include <string>
#include <vector>

#include "api/client.h"
#include "api/queue_types.h"
#include "base/result.h"
#include "cli/session.h"

namespace gpuman::cli::queue {

inline constexpr const char* kTerminalWord = "__terminal";

// Queues the request's only job and stays until it ends; returns as it did. While it waits, Ctrl-C takes it
// out of the queue; when it runs, every key is the job's. Standard input must be a terminal.
base::Result<int> RunOnTerminal(Session& session, const api::Client& daemon, api::SubmitRequest request);

// The other side, within the job: the exit status of the command, 128+N for a signal N, 127 where it cannot
// be started. `words`: the socket and the command.
base::Result<int> ServeTerminal(const std::vector<std::string>& words);

}  // namespace gpuman::cli::queue
