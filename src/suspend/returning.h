// Which of the suspended jobs that want back may begin: in order of priority, by the room there is. Pure.
#pragma once

#include <map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "suspend/record.h"

namespace gpuman::suspend {

struct Candidate {
  base::JobId job;
  int priority = 128;          // higher is more important
  base::MonoTime since{};      // when its return was asked for
  BytesByGpu needs{};          // Machine::Needs
  base::Millis room_lasts{0};  // there has to have been room for so long without a break
};

struct Choice {
  std::vector<base::JobId> now;   // begin
  std::vector<base::JobId> soon;  // have room that has not lasted yet
};

// Since when there has been room for each. Start with an empty one; nothing else writes to it.
using RoomSince = std::map<base::JobId, base::MonoTime>;

// The jobs whose needs fit into `free` one after the other, more important ones first, then those that wait
// longer. Room that has not lasted yet is kept for whom it is. One that does not fit keeps the GPUs it waits
// for from everyone behind it, or small jobs would keep a big one out for ever. What the guard keeps in
// reserve is not `free`. A job on the way back already has its needs taken from `free` by the caller. A GPU
// that `free` does not name has no room.
Choice ChooseReturning(std::vector<Candidate> candidates, BytesByGpu free, base::MonoTime now,
                       RoomSince& since);

}  // namespace gpuman::suspend
