// Which of the GPUs that would do. Pure; thread-safe.
#pragma once

#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// A GPU that would do.
struct Candidate {
  std::size_t gpu = 0;
  bool shared = false;      // others are on it
  base::Bytes free{};       // a shared job's choice: before it comes
  WallTime until = kNever;  // it is kept for somebody else from then on
};

// `count` of them; there are so many at least.
//
// A shared job goes where least is left (best fit), to GPUs in use before idle ones, so that idle GPUs stay
// whole. An exclusive one goes, by SchedulingSettings::choice, to the lowest indices, to any, or to those
// with the best links: from each GPU on the best-linked next one is added, and the best such set is taken; a
// job for one GPU takes the one with the worst links to the other candidates. GPUs that are kept for somebody
// later come first: the job ends before, and the others stay for jobs that do not.
GpuSet Choose(const Snapshot& snapshot, std::vector<Candidate> candidates, std::size_t count, bool share,
              JobId job);

}  // namespace gpuman::queue
