// What people ask of jobs.
#include <fmt/format.h>

#include <utility>

#include "jobs/supervisor.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

base::Error Supervisor::NoSuchJob(std::string_view ref) {
  return {ErrorCode::kNotFound, fmt::format("there is no job {}", ref), "`gpuman status --all` lists them"};
}

Result<> Supervisor::TagIsFree(const std::string& tag, JobId but) const {
  const Job* const holder = HolderOf(tag, but);
  if (!holder) return {};
  return Fail(ErrorCode::kAlreadyExists,
              fmt::format("the tag {} is taken by job {}, which is {}", tag, holder->id.value,
                          ToString(holder->state)),
              "choose another tag, or `gpuman remove` that job first");
}

void Supervisor::Create(Job job, Done<Job> done) {
  if (auto tag_is_free = TagIsFree(job.tag); !tag_is_free) return done(Fail(tag_is_free.error()));
  job.id = {++last_id_};
  job.submitted_at = clock_.Wall();
  const JobId id = job.id;
  Entry& entry = entries_[id];
  entry.job = std::move(job);
  ShareParts(entry.job);
  File(entry);
  // The directory is made while the record is committed; nothing starts before that is done.
  Launch(entry);
  Batch batch;
  batch.put = {entry.job};
  store_.Submit(std::move(batch), [self = self_, id, done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    Supervisor& me = **self;
    auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return;
    if (!stored) {
      me.Discard(it->second);
      // Its failure to be prepared may have been written after all.
      Batch undo;
      undo.erase = {id};
      me.store_.Submit(std::move(undo), [](const Result<>&) {});
      me.Unfile(it->second);
      me.entries_.erase(it);
      me.host_.OnJobForgotten(id);
      return done(Fail(stored.error()));
    }
    // Preparing may have failed meanwhile: then the job has ended already, and that is what is told.
    if (!IsEnded(it->second.job)) it->second.link->Start();
    me.host_.OnJobChanged(it->second.job, it->second.runtime);
    done(it->second.job);
    me.ForgetOldOnes();
  });
}

void Supervisor::Update(JobId id, const std::function<void(Job&)>& change, Done<Job> done) {
  auto found = Kept(id);
  if (!found) return done(Fail(found.error()));
  const Job before = (*found)->job;
  change((*found)->job);
  ShareParts((*found)->job);
  File(**found);
  (*found)->job.updated = true;
  Batch batch;
  batch.put = {(*found)->job};
  store_.Submit(std::move(batch), [self = self_, id, before, done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    Supervisor& me = **self;
    auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    if (!stored) {
      Job& job = it->second.job;
      job.tag = before.tag;
      me.File(it->second);
      job.weight = before.weight;
      job.memory = before.memory;
      job.soft = before.soft;
      job.priority = before.priority;
      job.restart = before.restart;
      job.grace = before.grace;
      job.terms = before.terms;
      job.updated = before.updated;
      return done(Fail(stored.error()));
    }
    me.SendSettings(it->second);
    me.host_.OnJobChanged(it->second.job, it->second.runtime);
    done(it->second.job);
  });
}

void Supervisor::SetSuspension(JobId id, std::string record, const std::vector<Notice>& notices,
                               std::function<void()> done) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  it->second.job.suspension = std::move(record);
  Enclosed enclosed;
  enclosed.messages = host_.MessagesAbout(it->second.job, notices);
  Save(
      id, [done = std::move(done)](const Result<>&) { done(); }, std::move(enclosed));
}

Result<> Supervisor::MayRestart(JobId id) {
  GPUMAN_ASSIGN(Entry * entry, Kept(id));
  const Job& job = entry->job;
  if (job.attached)
    return Fail(ErrorCode::kNotSupported, fmt::format("job {} was not started by gpuman", id.value),
                "start it again where it was started");
  if (job.remove_when_ended || (job.stop_wanted && !IsEnded(job)))
    return Fail(ErrorCode::kConflict, fmt::format("job {} is being ended", id.value));
  if (IsWaiting(job)) return Fail(ErrorCode::kConflict, fmt::format("job {} waits for its start", id.value));
  if (!IsEnded(job) && (!entry->link || !entry->link->connected()))
    return Fail(ErrorCode::kUnavailable, fmt::format("job {} is just being started", id.value),
                "try again in a moment");
  if (!IsEnded(job) || job.queued) return {};
  return TagIsFree(job.tag, id);
}

void Supervisor::Restart(JobId id, const keeper::Reason& reason, Done<Job> done) {
  if (auto may = MayRestart(id); !may) return done(Fail(may.error()));
  Entry& entry = entries_.at(id);
  if (!IsEnded(entry.job)) {
    if (auto sent = entry.link->Send(keeper::RestartJob{reason, {}, entry.job.grace}); !sent)
      return done(Fail(sent.error()));
    return reruns_.push_back({id, entry.job.runs, std::move(done)});
  }
  if (entry.job.queued) return Decide(id, RestartAsked{reason, clock_.Wall()}, std::move(done));
  const std::filesystem::path old_dir = JobDirectory(options_.jobs_dir, entry.job);
  const Job before = entry.job;
  Transition t = Apply(entry.job, RestartAsked{reason, clock_.Wall()});
  entry.job = std::move(t.job);
  File(entry);
  entry.stop_in_journal = false;
  entry.settings_in_journal.clear();
  Launch(entry);
  Batch batch;
  batch.put = {entry.job};
  store_.Submit(std::move(batch),
                [self = self_, id, before, old_dir, done = std::move(done)](const Result<>& stored) {
                  if (!*self) return;
                  Supervisor& me = **self;
                  auto it = me.entries_.find(id);
                  if (it == me.entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
                  if (!stored) {
                    me.Discard(it->second);
                    // The number is used up: its directory is being deleted.
                    const int incarnation = it->second.job.incarnation;
                    it->second.job = before;
                    it->second.job.incarnation = incarnation;
                    me.File(it->second);
                    return done(Fail(stored.error()));
                  }
                  if (!IsEnded(it->second.job)) it->second.link->Start();
                  me.DeleteFiles({old_dir});
                  me.host_.OnJobChanged(it->second.job, it->second.runtime);
                  done(it->second.job);
                });
}

void Supervisor::Remove(JobId id, const keeper::Reason& reason, Done<Job> done) {
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  (*found)->removals.push_back(std::move(done));
  Happen(id, StopAsked{reason, true, clock_.Wall()});
}

void Supervisor::Release(JobId id, Done<Job> done) {
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  if (IsEnded((*found)->job) || IsWaiting((*found)->job)) return Remove(id, {"removed", ""}, std::move(done));
  if ((*found)->job.container)
    return done(Fail(ErrorCode::kNotSupported, fmt::format("job {} is a container of Kubernetes'", id.value),
                     "gpuman update changes its limit"));
  if (!(*found)->job.attached && (!(*found)->link || !(*found)->link->connected()))
    return done(Fail(ErrorCode::kUnavailable, fmt::format("job {} is just being started", id.value),
                     "try again in a moment"));
  Batch batch;
  batch.erase = {id};
  store_.Submit(std::move(batch), [self = self_, id, done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    Supervisor& me = **self;
    auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    if (!stored) return done(Fail(stored.error()));
    it->second.job.restart = RestartMode::kNo;
    if (it->second.link) (void)it->second.link->Send(SettingsOf(it->second.job));
    const Job job = it->second.job;
    me.Vanish(id);
    me.AnswerWaiters(job);
    done(job);
  });
}

}  // namespace gpuman::jobs
