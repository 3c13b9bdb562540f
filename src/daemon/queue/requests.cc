#include "daemon/queue/requests.h"

#include <set>
#include <utility>

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

namespace {

void SendView(QueueModule& queue, const http::ExchangePtr& exchange, const jobs::Job& job, unsigned status,
              bool in_full, std::vector<std::string> notes) {
  const auto send = [exchange, status, notes = std::move(notes)](api::JobView view) {
    view.notes.insert(view.notes.end(), notes.begin(), notes.end());
    SendJson(exchange, api::Encode(view), status);
  };
  if (!job.queued || !jobs::IsWaiting(job) || (!in_full && queue.dispatcher().IsViewCheap()))
    return send(queue.View(job));
  queue.dispatcher().WithSnapshot([&queue, exchange, id = job.id, in_full,
                                   send](const std::shared_ptr<const QueueSnapshot>& snapshot) {
    const auto* const now = queue.core().jobs().Find(id);
    if (!now) return SendError(exchange, {base::ErrorCode::kNotFound, "the job is gone", {}});
    send(queue.ViewBy(*snapshot, *now, in_full));
  });
}

}  // namespace

void SendJob(QueueModule& queue, const http::ExchangePtr& exchange, const jobs::Job& job, unsigned status,
             bool in_full) {
  SendView(queue, exchange, job, status, in_full, {});
}

void SendJob(QueueModule& queue, const http::ExchangePtr& exchange, const jobs::Job& job,
             const std::vector<std::string>& notes, unsigned status) {
  SendView(queue, exchange, job, status, /*in_full=*/false, notes);
}

}  // namespace gpuman::daemon
