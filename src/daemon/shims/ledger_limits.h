// What a job's ledger says, and who does not count in it. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/inventory.h"
#include "guard/guard.h"
#include "jobs/job.h"
#include "ledger/ledgers.h"

namespace gpuman::daemon {

// One for each GPU of the machine, with or without limits, as many as a ledger has room for: also for those
// the job was not given, because a process that was moved goes on counting where it began. Of instances (MIG)
// the one that the job has, first.
std::vector<ledger::GpuLimit> LedgerLimitsOf(const jobs::Job& job, const gpu::Inventory& inventory);

// What a CUDA context costs on a GPU (UUID); nullopt: not known yet.
using ContextCost = std::function<std::optional<base::Bytes>(const std::string&)>;

// A limit that no program that uses CUDA can live with, as a sentence: on one of the job's GPUs, or, for a
// job that waits, on all of which it is known what a context costs; nullopt: it is not known to be so.
std::optional<std::string> TightLimit(const jobs::Job& job, const gpu::Inventory& inventory,
                                      const ContextCost& context_on);

// The job's processes on any GPU that do not count their memory, by pid. `counts`: whether one does.
std::vector<int> UnshimmedOf(base::JobId job, const std::map<std::string, guard::GpuStatus>& gpus,
                             const std::function<bool(base::JobId, base::ProcessId)>& counts);

}  // namespace gpuman::daemon
