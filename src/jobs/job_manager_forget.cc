// Jobs that end being jobs of gpuman: removed, too old, or let go.
#include <fmt/format.h>

#include <utility>

#include "jobs/job_manager.h"
#include "jobs/retention.h"

namespace gpuman::jobs {

using base::Fail;
using base::Result;

void JobManager::Forget(JobId id) {
  // The job is out of the list while its deletion is on its way: otherwise, of many jobs that end together,
  // each would request the deletion of all jobs before it.
  index_.Unlist(id);
  Batch batch;
  batch.erase = {id};
  // Messages that the disk refused before are sent all the same.
  auto messages = writer_.RefusedMessages(id);
  batch.outbox = messages;
  auto on_stored = self_.Bind([id, messages = std::move(messages)](JobManager& me, const Result<>& stored) {
    if (stored && !messages.empty()) me.callbacks_.on_messages_stored(messages);
    const Job* const forgotten = me.Find(id);
    if (!forgotten) return;
    if (!stored) {
      me.index_.Keep(id);
      me.ReportError(id, "it could not be removed: " + stored.error().message);
      return me.waiters_.AnswerRemovals(id, Fail(stored.error()));
    }
    const Job job = *forgotten;
    me.Vanish(id);
    me.files_.DeleteAll(job);
    me.waiters_.AnswerRemovals(id, job);
  });
  store_.Submit(std::move(batch), std::move(on_stored));
}

void JobManager::Vanish(JobId id) {
  if (!Find(id)) return;
  keepers_.Stop(id);
  attachments_.Leave(id);
  runtimes_.erase(id);
  index_.Erase(id);
  if (const auto messages = writer_.Drop(id); !messages.empty()) callbacks_.on_messages_stored(messages);
  callbacks_.on_job_forgotten(id);
  AnswerWaiters(id);
}

// The keeper is told first, if there is one: otherwise it would apply the restart policy to a job that the
// daemon does not know any more.
void JobManager::Release(JobId id, Done<Job> done) {
  auto found = index_.Existing(id);
  if (!found) return done(Fail(found.error()));
  const Job& job = **found;
  if (IsEnded(job) || IsWaiting(job)) return Remove(id, {"removed", ""}, std::move(done));
  if (job.container)
    return done(Fail(base::ErrorCode::kNotSupported,
                     fmt::format("job {} is a container of Kubernetes'", id.value),
                     "gpuman update changes its limit"));
  if (index_.IsLeaving(id))
    return done(Fail(base::ErrorCode::kConflict, fmt::format("job {} is being removed", id.value)));
  if (IsBeingStarted(id)) return OnceStarted(id, [this, id, done = std::move(done)] { Release(id, done); });
  index_.SetLeaving(id);
  if (job.attached) return LetGo(id, std::move(done));
  const auto answer = self_.Bind([id, done](JobManager& me, const Result<>& outcome) {
    const Job* const now = me.Find(id);
    if (!now) return done(Fail(NoSuchJob(id)));
    if (outcome) return me.LetGo(id, done);
    me.index_.Keep(id);
    if (IsEnded(*now)) return me.Remove(id, {"removed", ""}, done);
    me.writer_.Write(id, {});
    done(Fail(outcome.error().code,
              fmt::format("job {} was not let go: {}", id.value, outcome.error().message), "try again"));
  });
  if (auto sent = keepers_.OrderNoRestart(job, answer); !sent) {
    index_.Keep(id);
    done(Fail(sent.error()));
  }
}

void JobManager::LetGo(JobId id, Done<Job> done) {
  Batch batch;
  batch.erase = {id};
  auto on_stored = self_.Bind([id, done = std::move(done)](JobManager& me, const Result<>& stored) {
    const Job* const now = me.Find(id);
    if (!now) return done(Fail(NoSuchJob(id)));
    if (!stored) {
      me.index_.Keep(id);
      me.writer_.Write(id, {});
      me.keepers_.SendSettings(*now);
      return done(Fail(stored.error()));
    }
    Job job = *now;
    job.spec.Change([](spec::JobSpec& spec) { spec.restart = spec::RestartMode::kNo; });
    me.Vanish(id);
    me.waiters_.EndIsKnown(job);
    me.waiters_.AnswerRemovals(id, job);
    done(job);
  });
  store_.Submit(std::move(batch), std::move(on_stored));
}

void JobManager::ForgetOldOnes() {
  const base::WallTime now = clock_.Wall();
  const RetentionBounds bounds{options_.keep_ended, now - options_.keep_ended_for, options_.of_user.text};
  auto text = index_.accounts().TooManyEnded(options_.of_user);
  for (const JobId id : ToForget(index_.EndedJobs(), bounds, std::move(text), now))
    if (!callbacks_.is_needed(id)) Forget(id);
}

}  // namespace gpuman::jobs
