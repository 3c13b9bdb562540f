// gpuman-mover without its main: a process of one user that stays, because the driver's cuInit costs seconds
// and memory. It makes the driver's checkpoint calls for the daemon, and copies the memory that the shims of
// that user's processes hand to it (process_memory.h).
//
//   daemon ---requests---> reads ---> one thread: checkpoint calls, one after the other
//                               \---> a thread for each step of a process's memory, and for each of its GPUs
//                                     SegmentPool: host memory ahead of need
//
// When the daemon's socket closes, the mover finishes its work and ends: all memory that it has taken over is
// whole in host memory then.
#pragma once

#include "suspend/mover_options.h"

namespace gpuman::mover {

// Returns the exit status: 0, or 1 where the user or the socket is wrong.
int Run(const suspend::MoverOptions& options);

}  // namespace gpuman::mover
