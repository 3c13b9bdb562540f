// Which of the suspended jobs that want back may begin: by priority and by free room. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "suspend/record.h"

namespace gpuman::suspend {

struct ResumeCandidate {
  base::JobId job;
  int priority = 128;          // higher is more important
  base::MonoTime since{};      // when its return was asked for
  BytesByGpu needs{};          // SuspensionStateMachine::Needs
  base::Millis room_lasts{0};  // the room has to be there for so long without a break
};

struct ResumeChoice {
  std::vector<base::JobId> now;   // the jobs that begin
  std::vector<base::JobId> soon;  // the jobs with room that has not lasted long enough yet
};

// Since when there has been room for each job. Start with an empty map; only ChooseToResume writes to it.
using RoomSince = std::map<base::JobId, base::MonoTime>;

// The jobs whose needs fit into `free` one after the other: more important jobs first, then those that wait
// longer. Room that has not lasted yet is kept for its job. A job that does not fit keeps the GPUs it waits
// for from every job behind it, or small jobs would keep a big one out for ever. `free` does not include the
// guard's reserve. The caller has already taken the needs of jobs on the way back from `free`. A GPU that
// `free` does not name has no room.
ResumeChoice ChooseToResume(std::vector<ResumeCandidate> candidates, BytesByGpu free, base::MonoTime now,
                            RoomSince& since);

// The memory that jobs took when they came back, until the samples show it: an older sample still shows that
// memory as free.
class UnsampledMemoryTracker {
 public:
  void Add(base::MonoTime at, BytesByGpu bytes) { all_.push_back({at, std::move(bytes)}); }
  // `sampled`: when each GPU's free memory was sampled. Forgets arrivals that all of their GPUs show.
  void TakeFrom(BytesByGpu& free, const std::map<std::string, base::MonoTime>& sampled);

 private:
  struct Arrival {
    base::MonoTime at{};
    BytesByGpu bytes{};
  };
  std::vector<Arrival> all_;
};

}  // namespace gpuman::suspend
