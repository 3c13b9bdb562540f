// Jobs that wait for their start: starts, holds, cancels, changes and requeues them.
#include <fmt/format.h>

#include <utility>
#include <variant>

#include "jobs/job_manager.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {

// Why the request does not change the job.
std::string Refusal(const Job& job, const JobEvent& event) {
  const std::string who = fmt::format("job {} '{}'", job.id.value, job.tag);
  if (IsEnded(job)) return fmt::format("{} has ended: it is {}", who, ToString(job.state));
  std::string now = fmt::format("{} is {}", who, ToString(job.state));
  if (std::holds_alternative<HoldAsked>(event))
    return now + (IsWaiting(job) ? " already" : ", and only a job that waits can be held");
  if (std::holds_alternative<ReleaseAsked>(event)) return now + ", not held";
  return now;
}
std::string HintFor(const Job& job, const JobEvent& event) {
  if (!std::holds_alternative<HoldAsked>(event) || IsWaiting(job) || IsEnded(job)) return {};
  return fmt::format("`gpuman suspend {0}` takes it off its GPU, `gpuman cancel {0}` ends it", job.id.value);
}

}  // namespace

void JobManager::Start(JobId id, std::vector<std::string> gpus, Done<Job> done) {
  auto found = index_.Existing(id);
  if (!found) return done(Fail(found.error()));
  const Job& job = **found;
  Transition t = Apply(job, StartOrdered{std::move(gpus)});
  if (!t.changed) return done(Fail(ErrorCode::kConflict, fmt::format("job {} does not wait", id.value)));
  const Job before = PutStarted(std::move(t.job));
  StoreRecord(job, [this, id, before, done = std::move(done)](const Result<>& stored) {
    const Job* const now = Find(id);
    if (!now) return done(Fail(NoSuchJob(id)));
    if (!stored && !IsEnded(*now)) {
      const bool unwanted = now->stop_wanted;
      TakeBackStart(before, now->incarnation + 1);
      TellChanged(*now);
      if (unwanted) ApplyEvent(id, CancelAsked{{std::string(kCancelledWord), ""}, clock_.Wall()});
      return done(Fail(stored.error()));
    }
    // Preparing may have failed meanwhile: then the job has ended, or waits again and has no keeper.
    if (!IsEnded(*now)) StartKeeper(*now);
    TellChanged(*now);
    done(*now);
  });
}

void JobManager::Decide(JobId id, const JobEvent& event, Done<Job> done) {
  auto found = index_.Kept(id);
  if (!found) return done(Fail(found.error()));
  const Job& job = **found;
  if (!Apply(job, event).changed)
    return done(Fail(ErrorCode::kConflict, Refusal(job, event), HintFor(job, event)));
  ApplyEvent(id, event, [this, id, done = std::move(done)](const Result<>& stored) {
    if (!stored) return done(Fail(stored.error()));
    const Job* const decided = Find(id);
    if (!decided) return done(Fail(NoSuchJob(id)));
    done(*decided);
  });
}

// A job that is released may start at once. So its record must be on the disk before: a change that the disk
// refuses does not happen.
void JobManager::DecideStored(JobId id, const JobEvent& event, Done<Job> done) {
  auto found = index_.Kept(id);
  if (!found) return done(Fail(found.error()));
  const Transition wanted = Apply(**found, event);
  if (!wanted.changed) return Decide(id, event, std::move(done));  // refuses it
  StoreRecord(wanted.job, [this, id, event, done = std::move(done)](const Result<>& stored) {
    if (!stored) return done(Fail(stored.error()));
    Decide(id, event, done);
  });
}

void JobManager::Hold(JobId id, const keeper::EndReason& reason, Done<Job> done) {
  DecideStored(id, HoldAsked{reason}, std::move(done));
}

void JobManager::Unhold(JobId id, Done<Job> done) { DecideStored(id, ReleaseAsked{}, std::move(done)); }

void JobManager::Cancel(JobId id, const keeper::EndReason& reason, Done<Job> done) {
  Decide(id, CancelAsked{reason, clock_.Wall()}, std::move(done));
}

void JobManager::Requeue(JobId id, const keeper::EndReason& reason) {
  if (Find(id)) ApplyEvent(id, RequeueAsked{reason});
}

void JobManager::Change(JobId id, const std::function<void(Job&)>& change, Done<Job> done) {
  auto found = index_.Existing(id);
  if (!found) return done(Fail(found.error()));
  const Job& job = **found;
  if (!IsWaiting(job))
    return done(Fail(ErrorCode::kConflict,
                     fmt::format("job {} does not wait any more: it is {}", id.value, ToString(job.state))));
  ChangeStored(id, change, [this, id, done = std::move(done)](const Result<>& stored) {
    const Job* const changed = Find(id);
    if (!changed) return done(Fail(NoSuchJob(id)));
    TellChanged(*changed);
    if (!stored) return done(Fail(stored.error()));
    done(*changed);
  });
}

}  // namespace gpuman::jobs
