// The requests of users about their jobs.
#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "jobs/job_manager.h"
#include "spec/json.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

base::Error JobManager::NoSuchJob(std::string_view ref) {
  return {ErrorCode::kNotFound, fmt::format("there is no job {}", ref), "`gpuman status --all` lists them"};
}

Result<> JobManager::TagIsFree(const std::string& tag, JobId but) const {
  const Job* const holder = HolderOf(tag, but);
  if (!holder) return {};
  return Fail(ErrorCode::kAlreadyExists,
              fmt::format("the tag {} is taken by job {}, which is {}", tag, holder->id.value,
                          ToString(holder->state)),
              "choose another tag, or `gpuman remove` that job first");
}

void JobManager::Create(Job job, Done<Job> done) {
  if (auto tag_is_free = TagIsFree(job.tag); !tag_is_free) return done(Fail(tag_is_free.error()));
  if (auto may = MayBegin(job); !may) return done(Fail(may.error()));
  job.id = {++last_id_};
  job.submitted_at = clock_.Wall();
  const JobId id = job.id;
  Entry& entry = entries_[id];
  entry.job = std::move(job);
  ShareParts(entry.job);
  Index(entry);
  // The workers make the directory while the record is committed; no keeper starts before both are done.
  Launch(entry);
  Batch batch;
  batch.put = {entry.job};
  store_.Submit(std::move(batch), [self = self_, id, done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    JobManager& me = **self;
    auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return;
    if (!stored) {
      me.Discard(it->second);
      // The failure to prepare the job may have been written after all.
      Batch undo;
      undo.erase = {id};
      me.store_.Submit(std::move(undo), [](const Result<>&) {});
      me.Unindex(it->second);
      me.entries_.erase(it);
      me.callbacks_.on_job_forgotten(id);
      me.CarryOutLater(id);
      return done(Fail(stored.error()));
    }
    // Preparing may have failed meanwhile: then the job has ended already, and the answer says so.
    if (!IsEnded(it->second.job)) it->second.link->Start();
    me.callbacks_.on_job_changed(it->second.job, it->second.runtime);
    done(it->second.job);
    me.ForgetOldOnes();
  });
}

void JobManager::Update(JobId id, const std::function<void(Job&)>& change, Done<Job> done) {
  auto found = Kept(id);
  if (!found) return done(Fail(found.error()));
  (*found)->job.updated = true;
  ChangeStored(**found, change, [self = self_, id, done = std::move(done)](const Result<>& stored) {
    const auto it = (*self)->entries_.find(id);
    if (it == (*self)->entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    if (!stored) return done(Fail(stored.error()));
    (*self)->SendSettings(it->second);
    (*self)->callbacks_.on_job_changed(it->second.job, it->second.runtime);
    done(it->second.job);
  });
}

namespace {

// Undoes the change of each member, and of each field of the spec, that was not changed again since.
void TakeBack(Job& now, const Job& before, const Job& changed) {
  const auto undo = [&](auto member) {
    if (now.*member == changed.*member) now.*member = before.*member;
  };
  undo(&Job::tag);
  undo(&Job::command);
  undo(&Job::array);
  if (changed.spec != before.spec) now.spec = spec::WithoutChange(*now.spec, *before.spec, *changed.spec);
}

}  // namespace

void JobManager::ChangeStored(Entry& entry, const std::function<void(Job&)>& change,
                              std::function<void(const Result<>&)> done) {
  const JobId id = entry.job.id;
  Job before = entry.job;
  change(entry.job);
  ShareParts(entry.job);
  Index(entry);
  auto& on_their_way = changes_[id];
  const auto it = on_their_way.insert(on_their_way.end(), {std::move(before), entry.job});
  Save(id, [self = self_, id, it, done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    (*self)->OnChangeStored(id, it, stored.has_value());
    done(stored);
  });
}

// Later changes were made on top of this change: their `before` becomes the request without it.
void JobManager::OnChangeStored(JobId id, OnTheirWay::iterator change, bool stored) {
  const auto all = changes_.find(id);
  const auto entry = entries_.find(id);
  if (!stored) {
    for (auto later = std::next(change); later != all->second.end(); ++later) {
      TakeBack(later->before, change->before, change->changed);
      TakeBack(later->changed, change->before, change->changed);
    }
    if (entry != entries_.end()) {
      TakeBack(entry->second.job, change->before, change->changed);
      ShareParts(entry->second.job);
      Index(entry->second);
    }
  }
  all->second.erase(change);
  if (all->second.empty()) changes_.erase(all);
}

void JobManager::SetSuspension(JobId id, std::string record, const std::vector<Notice>& notices,
                               std::function<void()> done) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  it->second.job.suspension = std::move(record);
  Enclosed enclosed;
  enclosed.messages = callbacks_.messages_about(it->second.job, notices);
  Save(
      id, [done = std::move(done)](const Result<>&) { done(); }, std::move(enclosed));
}

Result<> JobManager::MayRestart(JobId id) {
  GPUMAN_ASSIGN(Entry * entry, Kept(id));
  const Job& job = entry->job;
  if (job.attached)
    return Fail(ErrorCode::kNotSupported, fmt::format("job {} was not started by gpuman", id.value),
                "start it again where it was started");
  if (job.remove_when_ended || (job.stop_wanted && !IsEnded(job)))
    return Fail(ErrorCode::kConflict, fmt::format("job {} is being ended", id.value));
  if (IsWaiting(job)) return Fail(ErrorCode::kConflict, fmt::format("job {} waits for its start", id.value));
  if (!IsEnded(job)) return {};
  if (!job.queued) GPUMAN_TRY(TagIsFree(job.tag, id));
  return MayBegin(job);
}

void JobManager::Restart(JobId id, const keeper::Reason& reason, Done<Job> done) {
  if (auto may = MayRestart(id); !may) return done(Fail(may.error()));
  if (IsBeingStarted(id))
    return OnceStarted(id, [this, id, reason, done = std::move(done)] { Restart(id, reason, done); });
  Entry& entry = entries_.at(id);
  if (!IsEnded(entry.job)) {
    const auto answer = [self = self_, id, reason, runs = entry.job.runs, done](const Result<>& outcome) {
      if (!*self) return;
      const Job* const job = (*self)->Find(id);
      if (!job) return done(Fail(NoSuchJob(std::to_string(id.value))));
      if (!outcome && IsEnded(*job) && !job->stop_wanted) return (*self)->Restart(id, reason, done);
      if (!outcome)
        return done(
            Fail(outcome.error().code,
                 fmt::format("job {} is not known to start again: {}", id.value, outcome.error().message),
                 fmt::format("`gpuman status {}` shows what became of it", job->id.value)));
      // AnswerReruns answers with the job of the new run, which has its process.
      (*self)->reruns_.push_back({id, runs, done});
      (*self)->AnswerReruns(id);
    };
    if (auto sent = entry.link->Send(keeper::RestartJob{reason, {}, entry.job.spec->grace}, answer); !sent)
      done(Fail(sent.error()));
    return;
  }
  if (entry.job.queued) return Decide(id, RestartAsked{reason, clock_.Wall()}, std::move(done));
  const std::filesystem::path old_dir = JobDirectory(options_.jobs_dir, entry.job);
  const Job before = entry.job;
  Transition t = Apply(entry.job, RestartAsked{reason, clock_.Wall()});
  entry.job = std::move(t.job);
  Index(entry);
  entry.stop_in_journal = false;
  entry.settings_in_journal.reset();
  entry.settings_sent.reset();
  Launch(entry);
  Batch batch;
  batch.put = {entry.job};
  store_.Submit(std::move(batch),
                [self = self_, id, before, old_dir, done = std::move(done)](const Result<>& stored) {
                  if (!*self) return;
                  JobManager& me = **self;
                  auto it = me.entries_.find(id);
                  if (it == me.entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
                  if (!stored) {
                    me.Discard(it->second);
                    // The incarnation is used up: its directory is being deleted.
                    const int incarnation = it->second.job.incarnation;
                    it->second.job = before;
                    it->second.job.incarnation = incarnation;
                    me.Index(it->second);
                    return done(Fail(stored.error()));
                  }
                  if (!IsEnded(it->second.job)) it->second.link->Start();
                  me.DeleteFiles(it->second.job.owner->uid, {old_dir});
                  me.callbacks_.on_job_changed(it->second.job, it->second.runtime);
                  done(it->second.job);
                });
}

void JobManager::Remove(JobId id, const keeper::Reason& reason, Done<Job> done) {
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  (*found)->removals.push_back(std::move(done));
  ApplyEvent(id, StopAsked{reason, true, clock_.Wall()});
}

void JobManager::Release(JobId id, Done<Job> done) {
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  if (IsEnded((*found)->job) || IsWaiting((*found)->job)) return Remove(id, {"removed", ""}, std::move(done));
  if ((*found)->job.container)
    return done(Fail(ErrorCode::kNotSupported, fmt::format("job {} is a container of Kubernetes'", id.value),
                     "gpuman update changes its limit"));
  Entry& entry = **found;
  if (entry.forgotten_soon)
    return done(Fail(ErrorCode::kConflict, fmt::format("job {} is being removed", id.value)));
  if (IsBeingStarted(id)) return OnceStarted(id, [this, id, done = std::move(done)] { Release(id, done); });
  entry.forgotten_soon = true;
  if (entry.job.attached) return LetGo(id, std::move(done));
  // The keeper is told first: otherwise it would apply the restart policy to a job that the daemon does not
  // know any more.
  keeper::UpdateSettings settings = SettingsOf(entry.job);
  settings.restart->mode = spec::RestartMode::kNo;
  const auto answer = [self = self_, id, done](const Result<>& outcome) {
    if (!*self) return;
    const auto it = (*self)->entries_.find(id);
    if (it == (*self)->entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    if (outcome) return (*self)->LetGo(id, done);
    it->second.forgotten_soon = false;
    it->second.settings_sent.reset();
    if (IsEnded(it->second.job)) return (*self)->Remove(id, {"removed", ""}, done);
    (*self)->Save(id, {});
    // If the keeper took the settings all the same, OnConnected corrects the settings by the journal.
    done(Fail(outcome.error().code,
              fmt::format("job {} was not let go: {}", id.value, outcome.error().message), "try again"));
  };
  entry.settings_sent = keeper::SerializeSettings(settings);
  if (auto sent = entry.link->Send(settings, answer); !sent) {
    entry.forgotten_soon = false;
    done(Fail(sent.error()));
  }
}

void JobManager::LetGo(JobId id, Done<Job> done) {
  Batch batch;
  batch.erase = {id};
  store_.Submit(std::move(batch), [self = self_, id, done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    JobManager& me = **self;
    auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    if (!stored) {
      it->second.forgotten_soon = false;
      me.Save(id, {});
      me.SendSettings(it->second);
      return done(Fail(stored.error()));
    }
    it->second.job.spec.Change([&](spec::JobSpec& spec) { spec.restart = spec::RestartMode::kNo; });
    const Job job = it->second.job;
    me.Vanish(id);
    me.AnswerWaiters(job);
    done(job);
  });
}

}  // namespace gpuman::jobs
