// Which of the suspended jobs that want back may begin: in order of priority, by the room there is. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "suspend/record.h"

namespace gpuman::suspend {

struct Candidate {
  base::JobId job;
  int priority = 128;          // higher is more important
  base::MonoTime since{};      // when its return was asked for
  BytesByGpu needs{};          // SuspensionStateMachine::Needs
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

// What jobs took that came back, until the samples show it: what is free by an older sample is not there.
class Arrivals {
 public:
  void Add(base::MonoTime at, BytesByGpu bytes) { all_.push_back({at, std::move(bytes)}); }
  // `sampled`: when what is free of each GPU was looked at. Those that all of them show are forgotten.
  void TakeFrom(BytesByGpu& free, const std::map<std::string, base::MonoTime>& sampled);

 private:
  struct Arrival {
    base::MonoTime at{};
    BytesByGpu bytes{};
  };
  std::vector<Arrival> all_;
};

}  // namespace gpuman::suspend
