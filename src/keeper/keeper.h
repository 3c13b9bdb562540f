// One keeper from lock to end: the whole of gpuman-keeper but its command line.
#pragma once

#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"

namespace gpuman::keeper {

// Takes charge of the job in `job_dir`: writes the end of what an earlier keeper left, runs the command, goes
// on until the job has ended. `ready` is called once when it listens for commands, before the command starts.
// Returns the exit status for the process (client.h: kExit…); errors come before `ready`. Blocks signals and
// makes the process a child subreaper, for good: for a process of its own, with one thread.
base::Result<int> KeepJob(const std::filesystem::path& job_dir, const base::Clock& clock,
                          const base::ProcessTable& table, const std::function<void()>& ready);

// Runs `work` in a child in a session of its own and returns when it calls its argument or ends: 0, or the
// status it ended with. The child's stderr is closed then. Returns in the child too, with work's status.
int Detach(const std::function<int(const std::function<void()>& ready)>& work);

}  // namespace gpuman::keeper
