// Finds the ledger of a job after a restart of the daemon: a process of the job still has the ledger's file.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/ids.h"

namespace gpuman::ledger {

// A newly opened descriptor of the ledger's file, from the first of `pids` that has it; nullopt: none has.
// If a process has closed its own descriptor, only root (CAP_CHECKPOINT_RESTORE) finds the file, and only
// while the process does not keep its memory locked: the call waits for half a second at most. `proc`: the
// path of the proc file system. The processes may have written anything into the file: Ledgers::Adopt checks
// it.
std::optional<base::Fd> FindLedger(base::JobId job, std::span<const pid_t> pids,
                                   const std::filesystem::path& proc = "/proc");

}  // namespace gpuman::ledger
