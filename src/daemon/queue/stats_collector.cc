#include "daemon/queue/stats_collector.h"

namespace gpuman::daemon {

bool StatsCollector::AddJobs(const jobs::JobIndex& index, const base::TimeSlice& slice) {
  while (!slice.IsOver()) {
    const auto* const job = index.After(last_job_);
    if (!job) return false;
    last_job_ = job->id;
    if (!jobs::IsEnded(*job)) stats_.Add(*job);
  }
  return true;
}

base::Result<bool> StatsCollector::AddRuns(jobs::Store& store) {
  GPUMAN_TRY(store.SomeRuns(runs_from_, until_, kRunsAtOnce,
                            [this](const jobs::RunAccount& run) { stats_.Add(run); }));
  return !runs_from_.done;
}

}  // namespace gpuman::daemon
