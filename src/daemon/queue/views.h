// What the API shows of the queue, from the dispatcher's snapshot and the jobs' records.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/queue_types.h"
#include "api/types.h"
#include "daemon/core/list_shortening.h"
#include "daemon/queue/dispatcher.h"
#include "jobs/job.h"
#include "queue/explain.h"

namespace gpuman::daemon {

// Adds the queue's part of a job that is or was in the queue to its view.
void ShowQueueFields(const jobs::Job& job, JobDetail detail, api::JobView& view);

// Adds to the view of a waiting job why it waits, when it will start, and its place.
void ShowWaiting(const Dispatcher::View& queue_view, const queue::Explainer& explainer, queue::Index row,
                 api::JobView& view);

// What InfoOf needs to describe the machine's GPUs and the processes on them that belong to no job.
struct QueueInfoContext {
  NameOfUid name_of;
  const std::set<std::string>& protected_names;
  base::Millis hoarder_idle{};  // IsHoarding's patience
  base::MonoTime now{};
  const gpu::Inventory& inventory;
};
// Adds why the job is ahead of others. Looks at all jobs, so it is for one job, not for lists.
void ShowAdvantage(const Dispatcher::View& queue_view, queue::Index row, api::JobView& view);
// Adds fair shares to the rows of users and of projects.
void ShowFairShares(const queue::Snapshot& snapshot, queue::WallTime now, api::StatsView& view);

api::QueueInfo InfoOf(Dispatcher& dispatcher, const std::map<std::string, guard::GpuStatus>& statuses,
                      const jobs::JobManager& jobs, const QueueInfoContext& context);

}  // namespace gpuman::daemon
