// Makes the state machine's view of a job's processes, and the API's view of a suspension. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/types.h"
#include "guard/guard.h"
#include "ledger/ledgers.h"
#include "suspend/events.h"

namespace gpuman::daemon {

// The processes of `job` on `gpus`, those that count in its ledger, and those of `held` that still live.
// `only`: the job's GPU where it has one. A shim's figures for a process that is on no known GPU count for
// that GPU. `context_cost`: the cost of a context on a GPU, 0 where it is not known.
std::vector<suspend::ObservedProcess> SuspensionView(
    base::JobId job, const std::map<std::string, guard::GpuStatus>& gpus,
    const std::vector<ledger::SlotStatus>& slots, const std::map<base::ProcessId, suspend::BytesByGpu>& held,
    const std::vector<std::string>& only, const std::function<base::Bytes(const std::string&)>& context_cost);

// The residency of a job in this phase, as the guard needs it.
guard::JobResidency ResidencyOf(suspend::SuspensionPhase phase);

// Fills in the state, the reason, and where the job's memory is.
void ShowSuspension(const suspend::SuspensionRecord& record, api::JobView& view);

}  // namespace gpuman::daemon
