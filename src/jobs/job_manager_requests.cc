// The requests of users about any job.
#include <fmt/format.h>

#include <utility>

#include "jobs/job_manager.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

void JobManager::StoreRecord(const Job& job, Done<void> stored) {
  Batch batch;
  batch.put = {job};
  store_.Submit(std::move(batch), self_.Bind([stored = std::move(stored)](
                                                 JobManager&, const Result<>& outcome) { stored(outcome); }));
}

void JobManager::Create(Job job, Done<Job> done) {
  if (auto tag_is_free = index_.TagIsFree(job.tag); !tag_is_free) return done(Fail(tag_is_free.error()));
  if (auto may = index_.accounts().MayBegin(job, options_.of_user); !may) return done(Fail(may.error()));
  job.id = index_.Reserve();
  job.submitted_at = clock_.Wall();
  job.gated = callbacks_.wants_gate(job);
  parts_.Share(job);
  const Job& added = index_.Add(std::move(job));
  // The workers make the directory while the record is committed; no keeper starts before both are done.
  Launch(added);
  StoreRecord(added, [this, id = added.id, done = std::move(done)](const Result<>& stored) {
    const Job* const created = Find(id);
    if (!created) return;
    if (!stored) {
      Discard(*created);
      // The failure to prepare the job may have been written after all.
      Batch undo;
      undo.erase = {id};
      store_.Submit(std::move(undo), [](const Result<>&) {});
      index_.Erase(id);
      callbacks_.on_job_forgotten(id);
      AnswerWaiters(id);
      waiters_.AnswerRemovals(id, Fail(stored.error()));
      return done(Fail(stored.error()));
    }
    // Preparing may have failed meanwhile: then the job has ended already, and the answer says so.
    if (!IsEnded(*created)) StartKeeper(*created);
    TellChanged(*created);
    done(*created);
    ForgetOldOnes();
  });
}

void JobManager::Update(JobId id, const std::function<void(Job&)>& change, Done<Job> done) {
  if (auto found = index_.Kept(id); !found) return done(Fail(found.error()));
  index_.Amend(id, [](Job& job) { job.updated = true; });
  ChangeStored(id, change, [this, id, done = std::move(done)](const Result<>& stored) {
    const Job* const job = Find(id);
    if (!job) return done(Fail(NoSuchJob(id)));
    if (!stored) return done(Fail(stored.error()));
    keepers_.SendSettings(*job);
    TellChanged(*job);
    done(*job);
  });
}

// Changes the job's request and stores it; undoes the change if it cannot be stored (request_undo_log.h).
void JobManager::ChangeStored(JobId id, const std::function<void(Job&)>& change, Done<void> done) {
  Job before = index_.At(id);
  const Job& changed = index_.Change(id, [&](Job& job) {
    change(job);
    parts_.Share(job);
  });
  const auto handle = changes_.Begin(std::move(before), changed);
  writer_.Write(id, [this, id, handle, done = std::move(done)](const Result<>& stored) {
    if (stored) {
      changes_.Stored(id, handle);
    } else if (!Find(id)) {
      changes_.Refused(id, handle, nullptr);
    } else {
      index_.Change(id, [&](Job& job) {
        changes_.Refused(id, handle, &job);
        parts_.Share(job);
      });
    }
    done(stored);
  });
}

void JobManager::SetSuspension(JobId id, std::string record, const std::vector<JobNotice>& notices,
                               std::function<void()> done) {
  const Job* const job = Find(id);
  if (!job) return;
  index_.Amend(id, [&](Job& now) { now.suspension = std::move(record); });
  RecordRows rows;
  rows.messages = callbacks_.messages_about(*job, notices);
  writer_.Write(
      id, [done = std::move(done)](const Result<>&) { done(); }, std::move(rows));
}

Result<> JobManager::MayRestart(JobId id) {
  GPUMAN_ASSIGN(const Job* const found, index_.Kept(id));
  const Job& job = *found;
  if (job.attached)
    return Fail(ErrorCode::kNotSupported, fmt::format("job {} was not started by gpuman", id.value),
                "start it again where it was started");
  if (job.remove_when_ended || (job.stop_wanted && !IsEnded(job)))
    return Fail(ErrorCode::kConflict, fmt::format("job {} is being ended", id.value));
  if (IsWaiting(job)) return Fail(ErrorCode::kConflict, fmt::format("job {} waits for its start", id.value));
  if (!IsEnded(job)) return {};
  if (!job.queued) GPUMAN_TRY(index_.TagIsFree(job.tag, id));
  return index_.accounts().MayBegin(job, options_.of_user);
}

void JobManager::Restart(JobId id, const keeper::EndReason& reason, Done<Job> done) {
  if (auto may = MayRestart(id); !may) return done(Fail(may.error()));
  if (IsBeingStarted(id))
    return OnceStarted(id, [this, id, reason, done = std::move(done)] { Restart(id, reason, done); });
  const Job& job = index_.At(id);
  if (!IsEnded(job)) return RestartRunning(job, reason, done);
  if (job.queued) return Decide(id, RestartAsked{reason, clock_.Wall()}, std::move(done));
  RestartEnded(job, reason, std::move(done));
}

void JobManager::RestartRunning(const Job& job, const keeper::EndReason& reason, const Done<Job>& done) {
  const auto answer =
      self_.Bind([id = job.id, reason, runs = job.runs, done](JobManager& me, const Result<>& outcome) {
        const Job* const now = me.Find(id);
        if (!now) return done(Fail(NoSuchJob(id)));
        if (!outcome && IsEnded(*now) && !now->stop_wanted) return me.Restart(id, reason, done);
        if (!outcome)
          return done(
              Fail(outcome.error().code,
                   fmt::format("job {} is not known to start again: {}", id.value, outcome.error().message),
                   fmt::format("`gpuman status {}` shows what became of it", id.value)));
        // The answer is the job of the new run, which has its process.
        me.waiters_.WaitForRun(id, runs, done);
        me.AnswerWaiters(id);
      });
  if (auto sent = keepers_.OrderRestart(job, reason, answer); !sent) done(Fail(sent.error()));
}

// The workers make the directory while the record is committed; no keeper starts before both are done.
Job JobManager::PutStarted(Job started) {
  const JobId id = started.id;
  started.gated = callbacks_.wants_gate(started);
  Job before = index_.Replace(std::move(started));
  Launch(index_.At(id));
  return before;
}

void JobManager::RestartEnded(const Job& job, const keeper::EndReason& reason, Done<Job> done) {
  const JobId id = job.id;
  const Job before = PutStarted(Apply(job, RestartAsked{reason, clock_.Wall()}).job);
  StoreRecord(job, [this, id, before, done = std::move(done)](const Result<>& stored) {
    const Job* const now = Find(id);
    if (!now) return done(Fail(NoSuchJob(id)));
    if (!stored) {
      TakeBackStart(before, now->incarnation);
      return done(Fail(stored.error()));
    }
    if (!IsEnded(*now)) StartKeeper(*now);
    files_.DeleteDirectory(before);
    TellChanged(*now);
    done(*now);
  });
}

// The start of the job could not be stored. The incarnation that it had is used up: its directory is being
// deleted.
void JobManager::TakeBackStart(const Job& before, int incarnation) {
  Discard(index_.At(before.id));
  Job job = before;
  job.incarnation = incarnation;
  index_.Replace(std::move(job));
}

void JobManager::Remove(JobId id, const keeper::EndReason& reason, Done<Job> done) {
  if (!Find(id)) return done(Fail(NoSuchJob(id)));
  waiters_.WaitForRemoval(id, std::move(done));
  ApplyEvent(id, StopAsked{reason, true, clock_.Wall()});
}

}  // namespace gpuman::jobs
