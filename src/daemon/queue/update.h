// Changes of a job of the queue: while it waits, of nearly all; while it runs, of what still matters. Pure.
#pragma once

#include "api/queue_types.h"
#include "daemon/queue/submission.h"

namespace gpuman::daemon {

// kConflict for what cannot change any more, since the job runs. `lookup`: of the caller's jobs.
base::Result<> ApplyQueueUpdate(const api::JobUpdate& update, const gpu::Inventory& inventory,
                                const queue::ReferenceLookup& lookup, jobs::Job& job);

// kPermissionDenied: it changes what the job executes, which is its owner's and root's to do: it runs as its
// owner.
base::Result<> MayRewrite(const api::JobUpdate& update, uid_t caller, const jobs::Job& job);

}  // namespace gpuman::daemon
