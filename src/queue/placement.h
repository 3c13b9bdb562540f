// Chooses among the GPUs that are suitable. Pure; thread-safe.
#pragma once

#include <vector>

#include "queue/snapshot.h"

namespace gpuman::queue {

// A suitable GPU.
struct CandidateGpu {
  std::size_t gpu = 0;
  bool shared = false;      // other jobs are on it
  base::Bytes free{};       // for a shared job: free before the job comes
  WallTime until = kNever;  // from then on the GPU is kept for another job
};

// Chooses `count` of the candidates. The caller passes at least `count` candidates.
//
// A shared job goes to the GPU with the least free memory (best fit), and to GPUs in use before idle ones, so
// that idle GPUs stay whole. SchedulingSettings::choice decides for an exclusive job: the lowest indices, any
// GPUs, or the GPUs with the best links. For the best links, Choose starts a set at each GPU, adds the
// best-linked next GPU until the set is full, and takes the best set; a job for one GPU gets the GPU with the
// worst links to the other candidates. GPUs that are kept for a later job come first: this job ends before
// that job starts, and the other GPUs stay for jobs that end later.
GpuSet Choose(const Snapshot& snapshot, std::vector<CandidateGpu> candidates, std::size_t count, bool share,
              JobId job);

}  // namespace gpuman::queue
