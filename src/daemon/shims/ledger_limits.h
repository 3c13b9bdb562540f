// The limits in a job's ledger, and the processes that do not count in it. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "gpu/inventory.h"
#include "guard/guard.h"
#include "jobs/job.h"
#include "jobs/lifecycle.h"
#include "ledger/ledgers.h"

namespace gpuman::daemon {

// One entry for each GPU of the machine, with or without a limit, as many as fit into a ledger. GPUs that the
// job was not given are included: it may move there, and its programs may use them all the same. Of
// MIG instances only the job's own is included; it comes first.
std::vector<ledger::GpuLimit> LedgerLimitsOf(const jobs::Job& job, const gpu::Inventory& inventory);

// What a CUDA context costs on a GPU (UUID); nullopt: not known yet.
using ContextCost = std::function<std::optional<base::Bytes>(const std::string&)>;

// A sentence if the job's limit is too low for any program that uses CUDA: on one of the job's GPUs or, for a
// job that waits, on all GPUs with a known context cost; nullopt: not known to be too low.
std::optional<std::string> TightLimit(const jobs::Job& job, const gpu::Inventory& inventory,
                                      const ContextCost& context_on);

// What is told of a job whose limit on the smallest of its GPUs was at least three times the most that it
// used; nullopt: it has no limit, or needs most of it.
std::optional<jobs::JobNotice> WideLimit(const jobs::Job& job, const gpu::Inventory& inventory,
                                         base::Bytes peak);

// The pids of the job's processes on any GPU that do not count their memory. `counts`: whether a process
// does.
std::vector<int> UnshimmedOf(base::JobId job, const std::map<std::string, guard::GpuStatus>& gpus,
                             const std::function<bool(base::JobId, base::ProcessId)>& counts);

// A sentence if a running job uses so much more than its limit that the guard ends it: within `patience` if
// all its processes count their memory, and at once otherwise. `overhead`: as guard::PolicySettings. nullopt:
// the guard lets it run.
std::optional<std::string> OverLimit(const api::JobView& view, base::Bytes overhead, base::Millis patience);

}  // namespace gpuman::daemon
