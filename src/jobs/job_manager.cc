#include "jobs/job_manager.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <utility>

namespace gpuman::jobs {
namespace {

constexpr base::Millis kSaveAgain{5000};
// At once, for all users whose jobs start at the same time.
constexpr std::size_t kKeeperWork = 2;

}  // namespace

using base::Result;

JobManager::JobManager(boost::asio::io_context& loop, boost::asio::thread_pool& workers, StoreWorker& store,
                       const base::Clock& clock, const base::ProcessTable& table, JobManagerOptions options)
    : loop_(loop),
      keeper_work_([&workers](std::function<void()> act) { boost::asio::post(workers, std::move(act)); },
                   [&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); },
                   {.of_all = kKeeperWork, .of_user = kKeeperWork}),
      store_(store),
      clock_(clock),
      table_(table),
      options_(std::move(options)),
      retry_(loop),
      slices_([&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); }, clock),
      signals_([&loop](std::function<void()> act) { boost::asio::post(loop, std::move(act)); }, table, clock),
      self_(std::make_shared<JobManager*>(this)) {}

JobManager::~JobManager() {
  *self_ = nullptr;
  for (auto& [id, entry] : entries_)
    if (entry.link) entry.link->Stop();
}

void JobManager::Adopt(StoreContents contents) {
  last_id_ = contents.last_job_id;
  for (Job& job : contents.jobs) {
    Entry& entry = entries_.try_emplace(entries_.end(), job.id)->second;
    entry.job = std::move(job);
    ShareParts(entry.job);
    Index(entry);
    callbacks_.on_job_changed(entry.job, entry.runtime);
  }
  SweepDirectories();
  for (const JobId id : std::set(active_)) PickUp(entries_.at(id));
  for (const JobId id : std::set(ended_))
    if (entries_.at(id).job.remove_when_ended) Forget(id);
  ForgetOldOnes();
}

void JobManager::ShareParts(Job& job) {
  job.environment = environments_.Share(job.environment);
  job.resource_limits = limits_.Share(job.resource_limits);
  job.spec = specs_.Share(job.spec);
  job.owner = owners_.Share(job.owner);
  job.directory = directories_.Share(job.directory);
}

void JobManager::Index(Entry& entry) {
  const JobId id = entry.job.id;
  const bool ended = IsEnded(entry.job);
  const bool active = !ended && !IsWaiting(entry.job);
  if (active)
    active_.insert(id);
  else
    active_.erase(id);
  if (ended)
    ended_.insert(id);
  else
    ended_.erase(id);
  CountAs(entry, {true, ended, active && !entry.job.attached, entry.job.owner->uid,
                  TextAccount::EntryOf(entry.job)});
  const std::size_t hash = std::hash<std::string>()(entry.job.tag);
  const uid_t user = entry.job.owner->uid;
  if (entry.tag_indexed && entry.tag_hash == hash && entry.tag_user == user) return;
  if (entry.tag_indexed) tags_.erase({entry.tag_hash, entry.tag_user, id});
  tags_.emplace(hash, user, id);
  entry.tag_hash = hash;
  entry.tag_user = user;
  entry.tag_indexed = true;
}

void JobManager::Unindex(Entry& entry) {
  const JobId id = entry.job.id;
  active_.erase(id);
  ended_.erase(id);
  CountAs(entry, {});
  if (entry.tag_indexed) tags_.erase({entry.tag_hash, entry.tag_user, id});
  entry.tag_indexed = false;
}

void JobManager::SetOptions(JobManagerOptions options) { options_ = std::move(options); }

void JobManager::ApplyEvent(JobId id, const JobEvent& event, Done<void> stored) {
  if (std::holds_alternative<RootEnded>(event)) signals_.RunIsOver(id);  // as OnRecord does
  Transition t = Apply(entries_.at(id).job, event);
  if (!t.changed) return Perform(id, t.effects);
  Entry& entry = entries_.at(id);
  const Job before = std::exchange(entry.job, std::move(t.job));
  const bool ended_now = IsEnded(entry.job) && !IsEnded(before);
  const bool run_over = ended_now || (IsWaiting(entry.job) && !IsWaiting(before));
  if (const auto peak = callbacks_.peak(id); peak && (!entry.job.peak || *peak > *entry.job.peak))
    entry.job.peak = peak;
  Index(entry);
  // Until the stored record says that the run is over, the next daemon relies on the journal: without it that
  // daemon would run the command again, and would take the records of a new journal for known ones.
  if (run_over && !ended_now)
    stored = [self = self_, user = before.owner->uid, left = JobDirectory(options_.jobs_dir, before),
              stored = std::move(stored)](const Result<>& outcome) {
      if (*self && outcome) (*self)->DeleteFiles(user, {left});
      if (stored) stored(outcome);
    };
  // Waiters learn of the end when it is on the disk: after a daemon that is killed before, the next daemon
  // would find another state.
  if (ended_now) {
    entry.end_unwritten = true;
    stored = [self = self_, ended = entry.job, stored = std::move(stored)](const Result<>& outcome) {
      if (*self) {
        if (auto it = (*self)->entries_.find(ended.id); it != (*self)->entries_.end())
          it->second.end_unwritten = false;
        (*self)->AnswerWaiters(ended);
      }
      if (stored) stored(outcome);
    };
  }
  if (const auto* const recorded = std::get_if<Recorded>(&event))
    callbacks_.on_recorded(entry.job, recorded->record);
  if (t.run) callbacks_.on_run_ended(entry.job, *t.run);
  Enclosed enclosed;
  enclosed.messages = callbacks_.messages_about(entry.job, t.notices);
  if (t.run) enclosed.runs.push_back(std::move(*t.run));
  Save(id, std::move(stored), std::move(enclosed));
  for (const Notice& notice : t.notices) callbacks_.on_notice(entries_.at(id).job, notice);
  if (run_over) {
    // The caller may be the link itself.
    boost::asio::post(loop_, [link = std::move(entries_.at(id).link)] {
      if (link) link->Stop();
    });
    entries_.at(id).link.reset();
    entries_.at(id).root.reset();
    if (!ended_now) LeaveRun(entries_.at(id));
  }
  callbacks_.on_job_changed(entries_.at(id).job, entries_.at(id).runtime);
  AnswerReruns(id);
  CarryOutLater(id);
  Perform(id, t.effects);
  if (!ended_now) return;
  const auto ended = entries_.find(id);
  if (ended_.size() > options_.keep_ended + options_.keep_ended / 20 ||
      (ended != entries_.end() && HasTooManyEnded(ended->second.job.owner->uid)))
    ForgetOldOnes();
}

// The job waits for its next run; nothing of the last run stays.
void JobManager::LeaveRun(Entry& entry) {
  entry.runtime = {};
  entry.stop_in_journal = false;
  entry.settings_in_journal.reset();
  entry.settings_sent.reset();
}

void JobManager::Perform(JobId id, const std::vector<Effect>& effects) {
  for (const Effect effect : effects) {
    auto it = entries_.find(id);
    if (it == entries_.end()) return;
    if (effect == Effect::kOrderStop) SendStop(it->second);
    if (effect == Effect::kForget) Forget(id);
    // The requests that launch and restart a job do that themselves.
  }
}

void JobManager::Save(JobId id, Done<void> stored, Enclosed enclosed) {
  // Also writes the rows that the disk refused before: the record says that they were written.
  if (auto before = dirty_.extract(id); !before.empty()) {
    Enclosed& unwritten = before.mapped();
    enclosed.runs.insert(enclosed.runs.begin(), unwritten.runs.begin(), unwritten.runs.end());
    enclosed.messages.insert(enclosed.messages.begin(), unwritten.messages.begin(), unwritten.messages.end());
  }
  Batch batch;
  // A put after the deletion would make it a job again for the next daemon.
  if (!entries_.at(id).forgotten_soon) batch.put = {entries_.at(id).job};
  batch.runs = enclosed.runs;
  batch.outbox = enclosed.messages;
  store_.Submit(std::move(batch), [self = self_, id, stored = std::move(stored),
                                   enclosed = std::move(enclosed), link = std::weak_ptr(entries_.at(id).link),
                                   seq = entries_.at(id).job.journal_seq](const Result<>& outcome) {
    if (!*self) return;
    JobManager& me = **self;
    if (const auto keeper = link.lock(); keeper && outcome) keeper->OnStored(seq);
    // A removed job is not written any more; its messages are sent all the same.
    if (!enclosed.messages.empty() && (outcome || !me.entries_.contains(id)))
      me.callbacks_.on_messages_stored(enclosed.messages);
    if (!outcome && me.entries_.contains(id)) {
      me.Trouble(id, "its record could not be written: " + outcome.error().message);
      Enclosed& unwritten = me.dirty_[id];
      unwritten.runs.insert(unwritten.runs.end(), enclosed.runs.begin(), enclosed.runs.end());
      unwritten.messages.insert(unwritten.messages.end(), enclosed.messages.begin(), enclosed.messages.end());
      me.SaveDirtyLater();
    }
    if (stored) stored(outcome);
  });
}

void JobManager::SaveDirtyLater() {
  if (dirty_.empty()) return;
  retry_.expires_after(kSaveAgain);
  retry_.async_wait([self = self_](const boost::system::error_code& error) {
    if (error || !*self) return;
    for (auto& [id, enclosed] : std::exchange((*self)->dirty_, {}))
      if ((*self)->entries_.contains(id)) (*self)->Save(id, {}, std::move(enclosed));
  });
}

}  // namespace gpuman::jobs
