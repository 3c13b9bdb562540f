// The whole life of one keeper, from lock to end: all of gpuman-keeper but its command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"

namespace gpuman::keeper {

// Takes charge of the job in `job_dir`: records the end of a run that an earlier keeper left, runs the
// command, and goes on until the job has ended. Calls `ready` once, when the keeper listens for commands and
// before the job's command starts. Returns the exit status for the process (client.h: kExit…); errors come
// before `ready`; kCorrupt: the job has lost records, so that its command is not run, and what earlier
// keepers had left is ended. `known_records`: the newest record that the daemon has seen; 0: none. Blocks
// signals and makes the process a child subreaper, for good: call it in a process of its own that has one
// thread.
base::Result<int> KeepJob(const std::filesystem::path& job_dir, std::uint64_t known_records,
                          const base::Clock& clock, const base::ProcessTable& table,
                          const std::function<void()>& ready);

// Runs `work` in a child in a session of its own. Returns 0 when `work` calls its argument, or the child's
// status when it ends. The child's stderr is closed then. Returns in the child too, with work's status.
int Detach(const std::function<int(const std::function<void()>& ready)>& work);

}  // namespace gpuman::keeper
