// One scheduling pass: which jobs start where, which make room, and why the others wait. Pure.
//
//   1. Jobs whose dependencies can never be met are cancelled, unless they asked not to be.
//   2. All jobs that can run are put in order (priority.h), among them suspended jobs that want back.
//   3. In that order each job starts if quotas, throttles, reservations and the machine allow (room.h,
//      placement.h).
//   4. Where the machine has no room, other jobs move or leave to make it (make_room.h), for at most
//      SchedulingSettings::attempts jobs in a pass.
//   5. The first job that still has none (EASY backfill), if it has waited for SchedulingSettings::patience
//      or is nearly there (SchedulingSettings::keep_ratio), gets the GPUs that will be free for it first:
//      they are kept for it from then on (ahead.h). A job after it starts there only if its time limit ends
//      before, or if it can be preempted: a wide job never waits for a stream of small ones.
//
// O(waiting + running * gpus), and one radix sort; 100,000 waiting and 1,000 running jobs take a few
// milliseconds (bench/queue_pass.cc). Estimates cost more and are made on request (forecast.h), as are the
// sentences (explain.h).
#pragma once

#include "queue/plan.h"
#include "queue/snapshot.h"

namespace gpuman::queue {

// Returns the same for the same snapshot and time, whatever the order of its rows.
Plan Pass(const Snapshot& snapshot, WallTime now);

}  // namespace gpuman::queue
