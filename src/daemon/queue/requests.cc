#include "daemon/queue/requests.h"

#include <set>

#include "api/queue_json.h"

namespace gpuman::daemon {

base::Result<std::vector<base::JobId>> JobsFor(QueueModule& queue, const http::ExchangePtr& exchange,
                                               const std::string& reference) {
  const auto& peer = exchange->request().peer;
  GPUMAN_ASSIGN(auto ids, queue.dispatcher().JobsOf(reference, peer.uid));
  GPUMAN_TRY(queue.dispatcher().IsOneJob(reference, peer.uid));
  std::set<uid_t> may;  // owners; a check for each job would look up groups each time
  for (const auto id : ids) {
    const auto* const job = queue.core().jobs().Find(id);
    if (!job || may.contains(job->owner->uid)) continue;
    GPUMAN_TRY(queue.core().Check(peer, api::Right::kControlJob, job->owner->uid));
    may.insert(job->owner->uid);
  }
  return ids;
}

void SendJob(QueueModule& queue, const http::ExchangePtr& exchange, const jobs::Job& job, unsigned status,
             bool in_full) {
  if (!job.queued || !jobs::IsWaiting(job) || (!in_full && queue.dispatcher().IsViewCheap()))
    return SendJson(exchange, api::Encode(queue.View(job)), status);
  queue.dispatcher().WithSnapshot(
      [&queue, exchange, id = job.id, status, in_full](const std::shared_ptr<const QueueSnapshot>& snapshot) {
        const auto* const now = queue.core().jobs().Find(id);
        if (!now) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
        SendJson(exchange, api::Encode(queue.ViewBy(*snapshot, *now, in_full)), status);
      });
}

}  // namespace gpuman::daemon
