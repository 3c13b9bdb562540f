// One scheduling pass: who starts where, who makes room, and why everybody else waits. Pure.
//
//   1. Cancelled are jobs whose dependencies cannot come true, unless they said otherwise.
//   2. All that can run are put in order (priority.h), suspended jobs that want back among them.
//   3. In that order each starts if quotas, throttles, reservations and the machine allow (room.h,
//      placement.h).
//   4. Where the machine has no room, others make it by moving or by leaving (make_room.h), for at most
//      SchedulingSettings::attempts jobs a pass.
//   5. For the first that still has none (EASY backfill), when it has waited for SchedulingSettings::patience
//   or is
//      nearly there (SchedulingSettings::keep_ratio), the GPUs that will be free for it first are kept from
//      then on (ahead.h). Who comes after it starts there only if its time limit ends before, or if it can be
//      made to leave: a wide job never waits for a stream of small ones.
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
