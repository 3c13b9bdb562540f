// The statistics that one request asked for, while they are made: from the jobs, in slices of the loop, then
// from the accounts of runs, some at a time, on the store's thread.
//
// Not thread-safe: the caller adds all jobs first, then the runs.
#pragma once

#include <utility>

#include "api/queue_types.h"
#include "base/result.h"
#include "base/sliced_work.h"
#include "daemon/queue/stats.h"
#include "jobs/job_index.h"
#include "jobs/store.h"

namespace gpuman::daemon {

class StatsCollector {
 public:
  static constexpr std::size_t kRunsAtOnce =
      1000;  // read from the store at a time, which takes some milliseconds

  // Of runs that ended in [since, until).
  StatsCollector(Stats stats, base::WallTime since, base::WallTime until)
      : stats_(std::move(stats)), until_(until), runs_from_{.ended = since} {}

  // Adds jobs that have not ended until the slice is over. True: there are more.
  bool AddJobs(const jobs::JobIndex& index, const base::TimeSlice& slice);
  // Adds at most kRunsAtOnce runs. True: there are more.
  base::Result<bool> AddRuns(jobs::Store& store);
  // What has been added. Of many runs this takes longer than others may wait for the loop.
  api::StatsView View() const { return stats_.View(); }

 private:
  Stats stats_;
  const base::WallTime until_;
  base::JobId last_job_{};  // jobs up to this one have been added
  jobs::Store::RunCursor runs_from_;
};

}  // namespace gpuman::daemon
