// What the API shows of the queue, from the dispatcher's book and the jobs' records.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/queue_types.h"
#include "api/types.h"
#include "daemon/queue/dispatcher.h"
#include "jobs/job.h"
#include "queue/explain.h"

namespace gpuman::daemon {

api::QueueFields QueueFieldsOf(const jobs::Job& job);

// Why a waiting job waits, when it will start, its place: into the view of the job.
void ShowWaiting(const Dispatcher::View& queue_view, const queue::Explainer& explainer, queue::Index row,
                 api::JobView& view);

// What is said of the machine's GPUs and of processes on them that no job has.
struct InfoContext {
  NameOfUid name_of;
  const std::set<std::string>& protected_names;
  base::Millis hoarder_idle{};  // IsHoarding's patience
  base::MonoTime now{};
  const std::vector<gpu::Link>& links;  // as in the inventory
};
// What it is in front by. Looks at all jobs: for one job, not for lists.
void ShowAdvantage(const Dispatcher::View& queue_view, queue::Index row, api::JobView& view);
// Into the rows of users and of projects.
void ShowFairShares(const queue::Snapshot& snapshot, queue::WallTime now, api::StatsView& view);

api::QueueInfo InfoOf(Dispatcher& dispatcher, const std::map<std::string, guard::GpuStatus>& statuses,
                      const jobs::JobManager& jobs, const InfoContext& context);

}  // namespace gpuman::daemon
