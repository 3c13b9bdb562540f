// Finds the ledger of a job whose daemon was started anew: a process of the job still has it.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/ids.h"

namespace gpuman::ledger {

// A newly opened descriptor of the ledger's file, from the first of `pids` that has it; nullopt: none has.
// Only root (CAP_CHECKPOINT_RESTORE) finds the file of a process that closed its own descriptor, and not
// while the process keeps its memory locked: the call waits for half a second at most. `proc` is where the
// processes are shown. The processes may have written anything into the file: Ledgers::Adopt checks it.
std::optional<base::Fd> FindLedger(base::JobId job, std::span<const pid_t> pids,
                                   const std::filesystem::path& proc = "/proc");

}  // namespace gpuman::ledger
