#include "daemon/queue/requests.h"

#include <set>

namespace gpuman::daemon {

void NoteOnName(const QueueModule& queue, const http::ExchangePtr& exchange, const std::string& reference) {
  const auto note = queue.dispatcher().references().NoteOnName(reference, exchange->request().peer.uid);
  if (!note.empty()) exchange->Note(note);
}

base::Result<std::vector<base::JobId>> JobsFor(QueueModule& queue, const http::ExchangePtr& exchange,
                                               const std::string& reference) {
  const auto& peer = exchange->request().peer;
  GPUMAN_ASSIGN(auto ids, queue.dispatcher().references().JobsOf(reference, peer.uid));
  GPUMAN_TRY(queue.dispatcher().references().IsOneJob(reference, peer.uid));
  NoteOnName(queue, exchange, reference);
  std::set<uid_t> may;  // owners; a check for each job would look up groups each time
  for (const auto id : ids) {
    const auto* const job = queue.core().jobs().Find(id);
    if (!job || may.contains(job->owner->uid)) continue;
    GPUMAN_TRY(queue.core().Check(peer, api::Right::kControlJob, job->owner->uid));
    may.insert(job->owner->uid);
  }
  return ids;
}

base::Result<const jobs::Job*> StillThere(Core& core, base::JobId id) {
  if (const auto* const job = core.jobs().Find(id)) return job;
  return base::Fail(base::ErrorCode::kNotFound, "the job is gone");
}

}  // namespace gpuman::daemon
