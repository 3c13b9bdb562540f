// Changes of a job of the queue. Nearly everything can change while the job waits; while it runs, only what
// still has an effect. Pure.
#pragma once

#include "api/queue_types.h"
#include "daemon/queue/submission.h"

namespace gpuman::daemon {

// kConflict: the update changes something that cannot change while the job runs. `lookup`: of the caller's
// jobs. The answer is a note for the caller; empty: there is none.
base::Result<std::string> ApplyQueueUpdate(const api::JobUpdate& update, const gpu::Inventory& inventory,
                                           const queue::ReferenceLookup& lookup,
                                           const MemoryChoiceContext& memory, jobs::Job& job);

// kPermissionDenied: the update changes what the job executes. Only the job's owner and root may do that,
// because the job runs as its owner.
base::Result<> MayRewrite(const api::JobUpdate& update, uid_t caller, const jobs::Job& job);

}  // namespace gpuman::daemon
