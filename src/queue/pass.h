// One scheduling pass: which jobs start where, which make room, and why the others wait. Pure.
//
//   1. Jobs whose dependencies can never be met are cancelled, unless their users asked otherwise.
//   2. All jobs that can run are put in order (priority.h), and with them the suspended jobs that want to be
//      resumed.
//   3. In that order each job starts if quotas, throttles, reservations and the machine allow it
//      (room_checker.h, placement.h).
//   4. If the machine has no room for a job, other jobs move or leave to make room (make_room.h). A
//      pass tries this for at most SchedulingSettings::attempts jobs.
//   5. EASY backfill: the first job that still has no room may get GPUs kept for it, if it has waited for
//      SchedulingSettings::patience or will have room soon (SchedulingSettings::keep_ratio). The pass keeps
//      the GPUs that will be free for it first, from the time at which they will be free (earliest_start.h). A later
//      job starts on them only if its time limit ends before that time, or if it can be preempted. So a wide
//      job never waits for a stream of small ones.
//
// A pass costs O(waiting + running * gpus) and one radix sort; 100,000 waiting and 1,000 running jobs take a
// few milliseconds (bench/queue_pass.cc). Estimates (forecast.h) cost more. A pass makes neither estimates
// nor sentences (explain.h).
#pragma once

#include "queue/plan.h"
#include "queue/snapshot.h"

namespace gpuman::queue {

// Returns the same plan for the same snapshot and time, in whatever order the rows of the snapshot are.
Plan Pass(const Snapshot& snapshot, WallTime now);

}  // namespace gpuman::queue
