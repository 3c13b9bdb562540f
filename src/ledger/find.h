// The ledger of a job whose daemon was started anew: a process of the job still has it.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/ids.h"

namespace gpuman::ledger {

// A descriptor of its file, opened anew, from the first of `pids` that has it; nullopt: none has. That of a
// process which closed its own is found by root alone (CAP_CHECKPOINT_RESTORE), and not while it keeps its
// memory locked: half a second is waited for it. `proc` is where the processes are shown. What the file holds
// is the processes' word: Ledgers::Adopt looks at it.
std::optional<base::Fd> FindLedger(base::JobId job, std::span<const pid_t> pids,
                                   const std::filesystem::path& proc = "/proc");

}  // namespace gpuman::ledger
