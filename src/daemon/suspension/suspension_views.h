// What the daemon tells a job's suspension of its processes, and what it shows of it. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/types.h"
#include "guard/guard.h"
#include "ledger/ledgers.h"
#include "suspend/state_machine.h"

namespace gpuman::daemon {

// The processes of `job` on `gpus`, those that count in its ledger, and those of `held` that live.
// `only`: the job's GPU where it has one; what a shim holds of a process that is on none is taken for its.
// `context_cost`: of a GPU, 0 where it is not known.
std::vector<suspend::ProcessView> SuspensionView(
    base::JobId job, const std::map<std::string, guard::GpuStatus>& gpus,
    const std::vector<ledger::SlotStatus>& slots, const std::map<base::ProcessId, suspend::BytesByGpu>& held,
    const std::vector<std::string>& only, const std::function<base::Bytes(const std::string&)>& context_cost);

// "its host memory is at the budget": why an order was refused.
std::string TextOf(const ledger::SlotStatus& slot);

// Where the guard takes the job for.
guard::Residency ResidencyOf(suspend::SuspensionPhase phase);

// State, reason and where the memory is.
void ShowSuspension(const suspend::SuspensionRecord& record, api::JobView& view);

}  // namespace gpuman::daemon
