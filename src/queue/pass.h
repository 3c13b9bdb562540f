// One scheduling pass: who starts where, who makes room, and why everybody else waits. Pure.
//
//   1. Cancelled are jobs whose dependencies cannot come true, unless they said otherwise.
//   2. All that can run are put in order (priority.h). Suspended jobs that want back are among them, as old
//   as
//      their suspension.
//   3. In that order each is started if quotas, throttles, reservations and the machine allow (room.h,
//   placement.h).
//   4. The first that the machine has no room for (EASY backfill) gets room by moving jobs, or by preempting
//      preemptible ones; where neither helps, the GPUs that will be free for it first are kept for it from
//      then on. Who comes after it starts there only if its time limit ends before, or if it can be made to
//      leave. So a wide job waits until the running ones end, and never behind those that were submitted
//      later. Jobs further back may get room by moves and preemption as well (Settings::attempts of them).
//
// Where no end is known (jobs without time limits), GPUs are kept after Settings::patience.
//
// O(waiting + running * gpus), and one radix sort; 100,000 waiting and 1,000 running jobs take a few
// milliseconds (bench/queue_pass.cc). Estimates cost more and are made when somebody asks (forecast.h), as
// are the sentences (explain.h).
#pragma once

#include "queue/plan.h"
#include "queue/snapshot.h"

namespace gpuman::queue {

// The same for the same snapshot and time, whatever the order of its rows.
Plan Pass(const Snapshot& snapshot, WallTime now);

}  // namespace gpuman::queue
