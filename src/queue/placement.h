// Chooses among the GPUs that are suitable. Pure; thread-safe.
#pragma once

#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// A suitable GPU.
struct Candidate {
  std::size_t gpu = 0;
  bool shared = false;      // other jobs are on it
  base::Bytes free{};       // for a shared job: free before the job comes
  WallTime until = kNever;  // it is kept for another job from then on
};

// Chooses `count` of the candidates; there are at least so many.
//
// A shared job goes where least is left (best fit), and to GPUs in use before idle ones, so that idle GPUs
// stay whole. An exclusive job goes, by SchedulingSettings::choice, to the lowest indices, to any, or to the
// GPUs with the best links: from each GPU on the best-linked next one is added, and the best such set is
// taken; a job for one GPU takes the one with the worst links to the other candidates. GPUs that are kept for
// a later job come first: this job ends before, and the others stay for jobs that do not.
GpuSet Choose(const Snapshot& snapshot, std::vector<Candidate> candidates, std::size_t count, bool share,
              JobId job);

}  // namespace gpuman::queue
