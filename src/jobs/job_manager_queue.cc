// Jobs that wait for their start: enqueues, starts, holds, cancels and requeues them.
#include <fmt/format.h>

#include <utility>

#include "jobs/clock_answer.h"
#include "jobs/job_manager.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {
constexpr std::size_t kMaxAtOnce = 64;
constexpr std::size_t kSome = 16;  // between two looks at the clock

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

void JobManager::Number(Job& job, base::WallTime at) {
  if (job.id.value == 0) job.id = {++last_id_};
  job.submitted_at = at;
  job.waiting_since = at;
  job.queued = true;
  ShareParts(job);
}

// The job is on the disk.
void JobManager::TakeIn(Job job, std::vector<JobId>& ids) {
  const JobId id = job.id;
  ids.push_back(id);
  Entry& entry = entries_.emplace_hint(entries_.end(), id, Entry{})->second;
  entry.job = std::move(job);
  Index(entry);
  callbacks_.on_job_changed(entry.job, entry.runtime);
}

void JobManager::Enqueue(std::vector<Job> jobs, Done<std::vector<JobId>> done) {
  if (jobs.size() > kMaxAtOnce) return EnqueueMany(std::move(jobs), std::move(done));
  const base::WallTime now = clock_.Wall();
  for (Job& job : jobs) Number(job, now);
  // The jobs share a commit with everything else that waits for one.
  Batch batch;
  batch.put = jobs;
  store_.Submit(std::move(batch),
                [self = self_, jobs = std::move(jobs), done = std::move(done)](const Result<>& stored) {
                  if (!*self) return;
                  if (!stored) return done(Fail(stored.error()));
                  std::vector<JobId> ids;
                  for (const Job& job : jobs) (*self)->TakeIn(job, ids);
                  done(std::move(ids));
                });
}

void JobManager::EnqueueMany(std::vector<Job> jobs, Done<std::vector<JobId>> done) {
  const uid_t user = jobs.front().owner->uid;
  // Ids without a gap: an arrival is known by its first and its last id (arrival.h).
  if (jobs.front().id.value == 0) {
    JobId id = Reserve(jobs.size());
    for (Job& job : jobs) job.id = {id.value++};
  }
  const auto arrival = std::make_shared<Arrival>();  // shared by its slices
  arrival->at = clock_.Wall();
  arrival->done = std::move(done);
  arrival->jobs = std::make_shared<std::vector<Job>>(std::move(jobs));
  slices_.Add(user, [this, arrival](const base::Turn& turn) {
    auto& next = arrival->next;
    for (; next < arrival->jobs->size(); ++next) {
      if (next % kMaxAtOnce == 0 && turn.IsOver()) return true;
      Number((*arrival->jobs)[next], arrival->at);
    }
    StoreArrival(arrival);
    return false;
  });
}

void JobManager::StoreArrival(const std::shared_ptr<Arrival>& arrival) {
  arrival->next = 0;
  Batch batch;
  batch.add = arrival->jobs;
  store_.Submit(std::move(batch), [self = self_, arrival](const Result<>& stored) {
    if (!*self) return;
    if (!stored) return arrival->done(Fail(stored.error()));
    arrival->ids.reserve(arrival->jobs->size());
    const uid_t user = arrival->jobs->front().owner->uid;
    (*self)->slices_.Add(user, [me = *self, arrival](const base::Turn& turn) {
      auto& next = arrival->next;
      for (; next < arrival->jobs->size(); ++next) {
        if (next % kSome == 0 && turn.IsOver()) return true;
        me->TakeIn(std::move((*arrival->jobs)[next]), arrival->ids);
      }
      arrival->done(std::move(arrival->ids));
      return false;
    });
  });
}

void JobManager::Start(JobId id, std::vector<std::string> gpus, Done<Job> done) {
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  Entry& entry = **found;
  Transition t = Apply(entry.job, StartOrdered{std::move(gpus)});
  if (!t.changed) return done(Fail(ErrorCode::kConflict, fmt::format("job {} does not wait", id.value)));
  const Job before = std::exchange(entry.job, std::move(t.job));
  Index(entry);
  // The workers make the directory while the record is committed; no keeper starts before both are done.
  Launch(entry);
  Batch batch;
  batch.put = {entry.job};
  store_.Submit(std::move(batch), [self = self_, id, before, done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    JobManager& me = **self;
    auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    Entry& now = it->second;
    if (!stored && !IsEnded(now.job)) {
      me.Discard(now);
      now.link.reset();
      // The incarnation is used up: its directory is being deleted.
      const int incarnation = now.job.incarnation + 1;
      const bool unwanted = now.job.stop_wanted;
      now.job = before;
      now.job.incarnation = incarnation;
      me.Index(now);
      me.callbacks_.on_job_changed(now.job, now.runtime);
      if (unwanted) me.ApplyEvent(id, CancelAsked{{std::string(kCancelledWord), ""}, me.clock_.Wall()});
      return done(Fail(stored.error()));
    }
    // Preparing may have failed meanwhile: then the job has ended, or waits again.
    if (now.link && !IsEnded(now.job)) now.link->Start();
    me.callbacks_.on_job_changed(now.job, now.runtime);
    done(now.job);
  });
}

void JobManager::Decide(JobId id, const JobEvent& event, Done<Job> done) {
  auto found = Kept(id);
  if (!found) return done(Fail(found.error()));
  if (!Apply((*found)->job, event).changed)
    return done(Fail(ErrorCode::kConflict, Refusal((*found)->job, event), HintFor((*found)->job, event)));
  ApplyEvent(id, event, [self = self_, id, done = std::move(done)](const Result<>& stored) {
    if (!stored) return done(Fail(stored.error()));
    const Job* const job = *self ? (*self)->Find(id) : nullptr;
    if (!job) return done(Fail(NoSuchJob(std::to_string(id.value))));
    done(*job);
  });
}

// A job that is released may start at once. So its record must be on the disk before: a change that the disk
// refuses does not happen.
void JobManager::DecideStored(JobId id, const JobEvent& event, Done<Job> done) {
  auto found = Kept(id);
  if (!found) return done(Fail(found.error()));
  Transition wanted = Apply((*found)->job, event);
  if (!wanted.changed) return Decide(id, event, std::move(done));  // refuses it
  Batch batch;
  batch.put = {std::move(wanted.job)};
  store_.Submit(std::move(batch), [self = self_, id, event, done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    if (!stored) return done(Fail(stored.error()));
    (*self)->Decide(id, event, done);
  });
}

void JobManager::Hold(JobId id, const keeper::Reason& reason, Done<Job> done) {
  DecideStored(id, HoldAsked{reason}, std::move(done));
}

void JobManager::Unhold(JobId id, Done<Job> done) { DecideStored(id, ReleaseAsked{}, std::move(done)); }

void JobManager::Cancel(JobId id, const keeper::Reason& reason, Done<Job> done) {
  Decide(id, CancelAsked{reason, clock_.Wall()}, std::move(done));
}

void JobManager::Requeue(JobId id, const keeper::Reason& reason) {
  if (entries_.contains(id)) ApplyEvent(id, RequeueAsked{reason});
}

void JobManager::Change(JobId id, const std::function<void(Job&)>& change, Done<Job> done) {
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  Entry& entry = **found;
  if (!IsWaiting(entry.job))
    return done(Fail(ErrorCode::kConflict, fmt::format("job {} does not wait any more: it is {}", id.value,
                                                       ToString(entry.job.state))));
  ChangeStored(entry, change, [self = self_, id, done = std::move(done)](const Result<>& stored) {
    const auto it = (*self)->entries_.find(id);
    if (it == (*self)->entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    (*self)->callbacks_.on_job_changed(it->second.job, it->second.runtime);
    if (!stored) return done(Fail(stored.error()));
    done(it->second.job);
  });
}

void JobManager::SetOffGpu(JobId id, bool off) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  // If no answer comes, OnConnected corrects this by the journal.
  (void)Order(it->second, keeper::PauseClock{off},
              [off](JobManager& me, Entry& entry, const Result<>& outcome) {
                if (const auto trouble = TroubleOfClock(off, outcome, entry.job.state))
                  me.Trouble(entry.job.id, *trouble);
              });
}

}  // namespace gpuman::jobs
