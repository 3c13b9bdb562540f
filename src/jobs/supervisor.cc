#include "jobs/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <csignal>
#include <utility>

#include "base/remove_tree.h"
#include "keeper/process_tree.h"

namespace gpuman::jobs {
namespace {

using base::ErrorCode;
using base::Fail;
using base::Result;

constexpr base::Millis kSaveAgain{5000};

base::Error NoSuchJob(std::string_view ref) {
  return {ErrorCode::kNotFound, fmt::format("there is no job {}", ref), "`gpuman status --all` lists them"};
}

keeper::UpdateSettings SettingsOf(const Job& job) {
  keeper::UpdateSettings settings;
  settings.restart = keeper::RestartPolicy{};
  settings.restart->mode = job.restart;
  settings.stop_grace = job.grace;
  return settings;
}

}  // namespace

Supervisor::Supervisor(boost::asio::io_context& loop, boost::asio::thread_pool& workers, StoreWorker& store,
                       const base::Clock& clock, const base::ProcessTable& table, SupervisorHost& host,
                       SupervisorOptions options)
    : loop_(loop),
      workers_(workers),
      store_(store),
      clock_(clock),
      table_(table),
      host_(host),
      options_(std::move(options)),
      retry_(loop),
      self_(std::make_shared<Supervisor*>(this)) {}

Supervisor::~Supervisor() {
  *self_ = nullptr;
  for (auto& [id, entry] : entries_)
    if (entry.link) entry.link->Stop();
}

void Supervisor::Adopt(const StoreContents& contents) {
  last_id_ = contents.last_job_id;
  for (const Job& job : contents.jobs) {
    Entry& entry = entries_[job.id];
    entry.job = job;
    entry.job.environment = environments_.Share(job.environment);
    host_.OnJobChanged(entry.job, entry.runtime);
  }
  SweepDirectories();
  std::vector<JobId> ids;
  for (const auto& [id, entry] : entries_) ids.push_back(id);
  for (const JobId id : ids) {
    Entry& entry = entries_.at(id);
    if (!IsEnded(entry.job))
      PickUp(entry);
    else if (entry.job.remove_when_ended)
      Forget(id);
  }
  ForgetOldOnes();
}

void Supervisor::SetOptions(SupervisorOptions options) { options_ = std::move(options); }

// --- Requests ---

void Supervisor::Create(Job job, Done<Job> done) {
  for (const auto& [id, entry] : entries_)
    if (entry.job.tag == job.tag && !IsEnded(entry.job))
      return done(Fail(ErrorCode::kAlreadyExists,
                       fmt::format("the tag {} is taken by job {}, which is {}", job.tag, id.value,
                                   ToString(entry.job.state)),
                       "choose another tag, or `gpuman remove` that job first"));
  job.id = {++last_id_};
  job.submitted_at = clock_.Wall();
  const JobId id = job.id;
  Entry& entry = entries_[id];
  entry.job = std::move(job);
  entry.job.environment = environments_.Share(entry.job.environment);
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
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  const Job before = (*found)->job;
  change((*found)->job);
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
      job.memory = before.memory;
      job.soft = before.soft;
      job.priority = before.priority;
      job.restart = before.restart;
      job.grace = before.grace;
      job.updated = before.updated;
      return done(Fail(stored.error()));
    }
    me.SendSettings(it->second);
    me.host_.OnJobChanged(it->second.job, it->second.runtime);
    done(it->second.job);
  });
}

void Supervisor::SetSuspension(JobId id, std::string record, std::function<void()> done) {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return;
  it->second.job.suspension = std::move(record);
  Save(id, [done = std::move(done)](const Result<>&) { done(); });
}

void Supervisor::Restart(JobId id, const keeper::Reason& reason, Done<Job> done) {
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  Entry& entry = **found;
  if (entry.job.remove_when_ended || entry.job.stop_wanted)
    if (!IsEnded(entry.job) || entry.job.remove_when_ended)
      return done(Fail(ErrorCode::kConflict, fmt::format("job {} is being ended", id.value)));
  if (!IsEnded(entry.job)) {
    if (!entry.link || !entry.link->connected())
      return done(Fail(ErrorCode::kUnavailable, fmt::format("job {} is just being started", id.value),
                       "try again in a moment"));
    auto sent = entry.link->Send(keeper::RestartJob{reason, {}, entry.job.grace});
    return sent ? done(entry.job) : done(Fail(sent.error()));
  }
  for (const auto& [other, its] : entries_)
    if (other != id && its.job.tag == entry.job.tag && !IsEnded(its.job))
      return done(Fail(ErrorCode::kConflict,
                       fmt::format("the tag {} is taken by job {} now", its.job.tag, other.value)));
  const std::filesystem::path old_dir = JobDirectory(options_.jobs_dir, entry.job);
  const Job before = entry.job;
  Transition t = Apply(entry.job, RestartAsked{reason, clock_.Wall()});
  entry.job = std::move(t.job);
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
  Happen(id, StopAsked{reason, true});
}

void Supervisor::Release(JobId id, Done<Job> done) {
  auto found = Existing(id);
  if (!found) return done(Fail(found.error()));
  if (IsEnded((*found)->job)) return Remove(id, {"removed", ""}, std::move(done));
  if (!(*found)->link || !(*found)->link->connected())
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
    (void)it->second.link->Send(SettingsOf(it->second.job));
    const Job job = it->second.job;
    me.Vanish(id);
    me.AnswerWaiters(job);
    done(job);
  });
}

// --- The guard's ---

void Supervisor::Announce(JobId id, const keeper::Reason& reason) {
  auto it = entries_.find(id);
  if (it == entries_.end() || IsEnded(it->second.job)) return;
  // Told first: the signal comes next. A keeper that cannot be told finds the reason in our record.
  if (it->second.link) (void)it->second.link->Send(keeper::AnnounceReason{0, reason, false});
  Happen(id, GuardOrdered{reason});
}

Result<std::size_t> Supervisor::Signal(JobId id, int signal) {
  GPUMAN_ASSIGN(Entry * entry, Existing(id));
  if (!entry->job.keeper) return Fail(ErrorCode::kConflict, "the job has no keeper yet");
  const keeper::ProcessTree tree{*entry->job.keeper, entry->job.cgroup};
  if (signal != SIGKILL) return keeper::SignalTree(tree, signal, table_);
  return keeper::KillTree(tree, table_).killed;
}

void Supervisor::Note(JobId id, const std::string& line) {
  auto it = entries_.find(id);
  if (it != entries_.end() && it->second.link) (void)it->second.link->Send(keeper::WriteNote{line});
}

// --- Views ---

const Job* Supervisor::Find(JobId id) const {
  auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second.job;
}

Result<JobId> Supervisor::Resolve(const std::string& ref) const {
  const Entry* best = nullptr;
  for (const auto& [id, entry] : entries_)
    if (entry.job.tag == ref && (!best || !IsEnded(entry.job) || IsEnded(best->job))) best = &entry;
  if (best) return best->job.id;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(ref.data(), ref.data() + ref.size(), number);
  if (error == std::errc() && end == ref.data() + ref.size() && entries_.contains({number}))
    return JobId{number};
  return Fail(NoSuchJob(ref));
}

std::vector<const Job*> Supervisor::All() const {
  std::vector<const Job*> jobs;
  for (const auto& [id, entry] : entries_) jobs.push_back(&entry.job);
  return jobs;
}

std::filesystem::path Supervisor::LogPathOf(JobId id) const { return LogPath(options_.launch.log_dir, id); }

std::uint64_t Supervisor::WaitForEnd(JobId id, std::function<void(const Job&)> ended) {
  const Job* job = Find(id);
  if (!job) return 0;
  if (IsEnded(*job) && !entries_.at(id).end_unwritten) {
    ended(*job);
    return 0;
  }
  waiters_.emplace(++last_waiter_, Waiter{id, std::move(ended)});
  return last_waiter_;
}

void Supervisor::CancelWait(std::uint64_t handle) { waiters_.erase(handle); }

void Supervisor::AnswerWaiters(const Job& job) {
  std::vector<std::function<void(const Job&)>> mine;
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (it->second.job == job.id) {
      mine.push_back(std::move(it->second.ended));
      it = waiters_.erase(it);
    } else {
      ++it;
    }
  }
  const Job copy = job;
  for (const auto& ended : mine) ended(copy);
}

// --- Keepers ---

Result<Supervisor::Entry*> Supervisor::Existing(JobId id) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return Fail(NoSuchJob(std::to_string(id.value)));
  return &it->second;
}

void Supervisor::MakeLink(Entry& entry) {
  if (entry.link) entry.link->Stop();
  const JobId id = entry.job.id;
  const auto with_me = [self = self_](auto body) {
    if (*self) body(**self);
  };
  KeeperLink::Callbacks callbacks;
  callbacks.on_record = [with_me, id](const keeper::Record& record) {
    with_me([&](Supervisor& me) { me.OnRecord(id, record); });
  };
  callbacks.on_connected = [with_me, id] { with_me([&](Supervisor& me) { me.OnConnected(id); }); };
  callbacks.on_failed = [with_me, id](const base::Error& error, bool prepared) {
    with_me([&](Supervisor& me) { me.OnFailed(id, error, prepared); });
  };
  callbacks.on_trouble = [with_me, id](const std::string& what) {
    with_me([&](Supervisor& me) { me.Trouble(id, what); });
  };
  entry.link = std::make_shared<KeeperLink>(loop_, workers_, options_.keeper_program,
                                            JobDirectory(options_.jobs_dir, entry.job), std::move(callbacks));
}

void Supervisor::Launch(Entry& entry) {
  MakeLink(entry);
  LaunchSettings settings = options_.launch;
  settings.all_gpus = host_.AllGpus();
  entry.link->Prepare(PlanLaunch(entry.job, settings));
}

// What Launch began. The link is gone already where preparing failed.
void Supervisor::Discard(Entry& entry) {
  if (entry.link)
    entry.link->Discard();
  else
    DeleteFiles({JobDirectory(options_.jobs_dir, entry.job)});
}

// Whatever state the job was left in: preparing again leaves a prepared directory alone, and starting a
// keeper finds out whether one is needed.
void Supervisor::PickUp(Entry& entry) {
  Launch(entry);
  entry.link->Start();
}

void Supervisor::OnRecord(JobId id, const keeper::Record& record) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  if (const auto* started = std::get_if<keeper::KeeperStarted>(&record.body))
    entry.runtime.key = started->key;
  if (std::holds_alternative<keeper::RunStarted>(record.body))
    entry.runtime.run_started = base::MonoTime(record.mono);
  if (std::holds_alternative<keeper::StopOrdered>(record.body)) entry.stop_in_journal = true;
  if (const auto* changed = std::get_if<keeper::SettingsChanged>(&record.body))
    entry.settings_in_journal = changed->settings;
  Happen(id, Recorded{record});
}

void Supervisor::OnConnected(JobId id) {
  auto it = entries_.find(id);
  if (it == entries_.end() || IsEnded(it->second.job)) return;
  Entry& entry = it->second;
  host_.OnJobChanged(entry.job, entry.runtime);
  if (entry.job.updated) SendSettings(entry);
  if (entry.job.stop_wanted && !entry.stop_in_journal) {
    SendStop(entry);
  } else if (entry.job.state == JobState::kStopping && !entry.job.verdict && entry.job.reason &&
             !entry.stop_in_journal) {
    // The guard had ordered this end and we were killed before it was carried out.
    (void)entry.link->Send(
        keeper::AnnounceReason{0, {*entry.job.reason, entry.job.reason_detail.value_or("")}, false});
    (void)Signal(id, SIGKILL);
  }
}

void Supervisor::OnFailed(JobId id, const base::Error& error, bool prepared) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  Trouble(id, "starting the keeper: " + error.message);
  // One that ran before may have left processes, and what became of its run is not known yet.
  if (it->second.job.keeper && prepared) return it->second.link->TryAgain();
  Happen(id, CannotStart{error.message, clock_.Wall()});
}

void Supervisor::Trouble(JobId id, const std::string& what) {
  if (const Job* job = Find(id)) host_.OnTrouble(*job, what);
}

void Supervisor::SendStop(Entry& entry) {
  if (!entry.link) return;
  (void)entry.link->Send(keeper::StopJob{
      {entry.job.reason.value_or("stopped"), entry.job.reason_detail.value_or("")}, {}, entry.job.grace});
}

void Supervisor::SendSettings(Entry& entry) {
  if (!entry.link || IsEnded(entry.job)) return;
  keeper::UpdateSettings settings = SettingsOf(entry.job);
  const RestartMode mode = settings.restart->mode;
  settings.restart = options_.launch.restart;
  settings.restart->mode = mode;
  if (keeper::SerializeSettings(settings) != entry.settings_in_journal) (void)entry.link->Send(settings);
}

// --- The records ---

void Supervisor::Happen(JobId id, const JobEvent& event, Done<void> stored) {
  Transition t = Apply(entries_.at(id).job, event);
  if (t.changed) {
    Job& job = entries_.at(id).job;
    const bool ended_now = IsEnded(t.job) && !IsEnded(job);
    job = t.job;
    if (const auto peak = host_.PeakOf(id); peak && (!job.peak || *peak > *job.peak)) job.peak = peak;
    // Who waits for the end hears of it when it is on disk: a daemon killed then would tell another story.
    if (ended_now) {
      entries_.at(id).end_unwritten = true;
      stored = [self = self_, ended = job, stored = std::move(stored)](const Result<>& outcome) {
        if (*self) {
          if (auto it = (*self)->entries_.find(ended.id); it != (*self)->entries_.end())
            it->second.end_unwritten = false;
          (*self)->AnswerWaiters(ended);
        }
        if (stored) stored(outcome);
      };
    }
    Save(id, std::move(stored));
    for (const Notice& notice : t.notices) host_.OnNotice(entries_.at(id).job, notice);
    host_.OnJobChanged(entries_.at(id).job, entries_.at(id).runtime);
    if (ended_now) {
      // The link may be the caller.
      boost::asio::post(loop_, [link = std::move(entries_.at(id).link)] {
        if (link) link->Stop();
      });
      entries_.at(id).link.reset();
    }
  }
  Carry(id, t.effects);
}

void Supervisor::Carry(JobId id, const std::vector<Effect>& effects) {
  for (const Effect effect : effects) {
    auto it = entries_.find(id);
    if (it == entries_.end()) return;
    if (effect == Effect::kOrderStop) SendStop(it->second);
    if (effect == Effect::kForget) Forget(id);
    // Launching and restarting are the business of the requests that ask for them.
  }
}

void Supervisor::Save(JobId id, Done<void> stored) {
  Batch batch;
  batch.put = {entries_.at(id).job};
  store_.Submit(std::move(batch), [self = self_, id, stored = std::move(stored)](const Result<>& outcome) {
    if (!*self) return;
    Supervisor& me = **self;
    if (!outcome && me.entries_.contains(id)) {
      me.Trouble(id, "its record could not be written: " + outcome.error().message);
      me.dirty_.insert(id);
      me.SaveDirtyLater();
    }
    if (stored) stored(outcome);
  });
}

void Supervisor::SaveDirtyLater() {
  if (dirty_.empty()) return;
  retry_.expires_after(kSaveAgain);
  retry_.async_wait([self = self_](const boost::system::error_code& error) {
    if (error || !*self) return;
    for (const JobId id : std::exchange((*self)->dirty_, {}))
      if ((*self)->entries_.contains(id)) (*self)->Save(id, {});
  });
}

// --- Forgetting ---

void Supervisor::Forget(JobId id) {
  Batch batch;
  batch.erase = {id};
  store_.Submit(std::move(batch), [self = self_, id](const Result<>& stored) {
    if (!*self) return;
    Supervisor& me = **self;
    auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return;
    const auto removals = std::exchange(it->second.removals, {});
    if (!stored) {
      me.Trouble(id, "it could not be removed: " + stored.error().message);
      for (const auto& done : removals) done(Fail(stored.error()));
      return;
    }
    const Job job = it->second.job;
    std::vector<std::filesystem::path> files{JobDirectory(me.options_.jobs_dir, job)};
    const std::filesystem::path log = me.LogPathOf(id);
    files.push_back(log);
    for (std::uint32_t i = 1; i <= me.options_.launch.log_files; ++i)
      files.push_back(log.string() + "." + std::to_string(i));
    me.Vanish(id);
    me.DeleteFiles(std::move(files));
    for (const auto& done : removals) done(job);
  });
}

void Supervisor::Vanish(JobId id) {
  auto it = entries_.find(id);
  if (it == entries_.end()) return;
  if (it->second.link) it->second.link->Stop();
  entries_.erase(it);
  dirty_.erase(id);
  host_.OnJobForgotten(id);
}

void Supervisor::ForgetOldOnes() {
  std::vector<const Job*> ended;
  for (const auto& [id, entry] : entries_)
    if (IsEnded(entry.job)) ended.push_back(&entry.job);
  // What ended in the future did so before the clock was set back, and so before what ended since.
  const base::WallTime now = clock_.Wall();
  const auto age = [now](const Job* job) {
    const base::WallTime at = job->ended_at.value_or(base::WallTime{});
    return std::pair(at > now ? base::WallTime{} : at, job->id);
  };
  std::sort(ended.begin(), ended.end(), [&](const Job* a, const Job* b) { return age(a) < age(b); });
  const base::WallTime oldest = now - options_.keep_ended_for;
  std::size_t left = ended.size();
  for (const Job* job : ended) {
    if (left <= options_.keep_ended && job->ended_at && *job->ended_at >= oldest) break;
    --left;
    Forget(job->id);
  }
}

// Directories that belong to no job: of a request whose commit failed or never happened, or of jobs that
// were removed or let go. Those whose keeper still lives stay. Before anything is created: a number whose
// commit never happened is given again, and must not find the directory of its predecessor.
void Supervisor::SweepDirectories() {
  std::set<std::filesystem::path> wanted;
  for (const auto& [id, entry] : entries_) wanted.insert(JobDirectory(options_.jobs_dir, entry.job));
  std::vector<std::filesystem::path> unwanted;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(options_.jobs_dir, error))
    if (!wanted.contains(item.path())) unwanted.push_back(item.path());
  for (const auto& path : unwanted)
    if (!keeper::KeeperLives(path)) (void)base::RemoveTree(path);
}

void Supervisor::DeleteFiles(std::vector<std::filesystem::path> paths) {
  boost::asio::post(workers_, [paths = std::move(paths)] {
    // What stays is swept at the next start.
    for (const auto& path : paths) (void)base::RemoveTree(path);
  });
}

}  // namespace gpuman::jobs
