// Attached jobs: the processes below a foreign process that stands in place of a keeper, or the processes in
// a container. There is no journal: all that is known comes from that process or the cgroup, and from the
// store.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <tuple>
#include <utility>

#include "base/boot.h"
#include "jobs/job_manager.h"
#include "keeper/process_tree.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

namespace {
constexpr std::chrono::milliseconds kRewatchDelay{500};

}  // namespace

void JobManager::Attach(Job job, base::ProcessId root, Done<Job> done) {
  for (const auto& [id, entry] : entries_) {
    if (!entry.job.attached || entry.job.keeper != root || IsEnded(entry.job)) continue;
    if (entry.job.tag == job.tag && entry.job.owner->uid == job.owner->uid)
      return AnswerOnceStored(id, std::move(done));
    return done(Fail(ErrorCode::kConflict, fmt::format("process {} is attached to job {} '{}' already",
                                                       root.pid, id.value, entry.job.tag)));
  }
  if (auto tag_is_free = TagIsFree(job.tag); !tag_is_free) return done(Fail(tag_is_free.error()));
  if (!base::IsAlive(root))
    return done(Fail(ErrorCode::kNotFound, fmt::format("there is no process {}", root.pid)));
  job.environment = Variables{{keeper::kKeyVariable, keeper::MakeKey()}};
  job.process = root;
  job.keeper = root;
  BeginAttached(std::move(job), fmt::format("attached to process {}", root.pid), std::move(done));
}

// A second request may come before the first answer.
void JobManager::AnswerOnceStored(JobId id, Done<Job> done) {
  store_.Submit(Batch{}, [self = self_, id, done = std::move(done)](const Result<>&) {
    if (!*self) return;
    const auto it = (*self)->entries_.find(id);
    if (it == (*self)->entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    done(it->second.job);
  });
}

void JobManager::AttachContainer(Job job, Done<Job> done) {
  for (const JobId id : active_)
    if (const auto& other = entries_.at(id).job; other.container && other.container->id == job.container->id)
      return done(Fail(ErrorCode::kAlreadyExists, fmt::format("the container is job {} already", id.value)));
  if (auto tag_is_free = TagIsFree(job.tag); !tag_is_free) return done(Fail(tag_is_free.error()));
  job.process = OldestIn(job);
  if (!job.process) return done(Fail(ErrorCode::kNotFound, "nothing runs in the container"));
  job.keeper = base::ProcessId{};
  auto how = fmt::format("container {} of pod {} in {}", job.container->name, job.container->pod,
                         job.container->name_space);
  BeginAttached(std::move(job), std::move(how), std::move(done));
}

void JobManager::BeginAttached(Job job, std::string how, Done<Job> done) {
  job.id = {++last_id_};
  job.attached = true;
  job.submitted_at = clock_.Wall();
  job.started_at = job.submitted_at;
  job.state = JobState::kRunning;
  job.boot_id = base::BootId();
  job.runs = 1;
  const JobId id = job.id;
  Entry& entry = entries_[id];
  entry.job = std::move(job);
  ShareParts(entry.job);
  Index(entry);
  const Notice notice{"job_started", std::move(how), {{"pid", entry.job.process->pid}}};
  Batch batch;
  batch.put = {entry.job};
  auto messages = callbacks_.messages_about(entry.job, {notice});
  batch.outbox = messages;
  store_.Submit(std::move(batch), [self = self_, id, notice, messages = std::move(messages),
                                   done = std::move(done)](const Result<>& stored) {
    if (!*self) return;
    JobManager& me = **self;
    const auto it = me.entries_.find(id);
    if (it == me.entries_.end()) return done(Fail(NoSuchJob(std::to_string(id.value))));
    if (!stored) {
      me.Unindex(it->second);
      me.entries_.erase(it);
      me.callbacks_.on_job_forgotten(id);
      return done(Fail(stored.error()));
    }
    if (!messages.empty()) me.callbacks_.on_messages_stored(messages);
    me.callbacks_.on_notice(it->second.job, notice);
    me.WatchRoot(it->second);
    done(it->second.job);
    me.ForgetOldOnes();
  });
}

// The root may have changed in any way meanwhile.
void JobManager::WatchRoot(Entry& entry) {
  const JobId id = entry.job.id;
  const auto& variables = *entry.job.environment;
  if (const auto key = variables.find(keeper::kKeyVariable); key != variables.end())
    entry.runtime.key = key->second;
  entry.runtime.run_started = clock_.Mono();
  if (entry.job.boot_id != base::BootId()) return OnRootEnded(id, true);
  if (entry.job.container) return WatchContainer(entry);
  const auto ended = [self = self_, id] {
    if (*self) (*self)->OnRootEnded(id, false);
  };
  auto watch = RootWatch::Begin(loop_, *entry.job.keeper, ended);
  if (!watch && watch.error().code == ErrorCode::kNotFound) return boost::asio::post(loop_, ended);
  if (!watch) return WatchLater(entry, watch.error());
  entry.root = std::move(*watch);
  callbacks_.on_job_changed(entry.job, entry.runtime);
  // An end was ordered, and the daemon was killed before it carried out the end.
  if (entry.job.state == JobState::kStopping) StopAttached(id);
}

// The watch failed, for example because no descriptor was left; the job has not ended. Its limits hold
// meanwhile.
void JobManager::WatchLater(Entry& entry, const base::Error& error) {
  const JobId id = entry.job.id;
  Trouble(id, "it cannot be watched now: " + error.message);
  callbacks_.on_job_changed(entry.job, entry.runtime);
  const auto timer = std::make_shared<boost::asio::steady_timer>(loop_, kRewatchDelay);  // kept by its wait
  timer->async_wait([self = self_, id, timer](boost::system::error_code stopped) {
    if (stopped || !*self) return;
    const auto it = (*self)->entries_.find(id);
    if (it != (*self)->entries_.end() && !IsEnded(it->second.job)) (*self)->WatchRoot(it->second);
  });
}

std::optional<base::ProcessId> JobManager::OldestIn(const Job& job) const {
  const auto members = keeper::Members({base::ProcessId{}, job.cgroup}, table_);
  const auto oldest = std::min_element(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return std::tie(a.id.start_time, a.id.pid) < std::tie(b.id.start_time, b.id.pid);
  });
  return oldest == members.end() ? std::nullopt : std::optional(oldest->id);
}

// Watches one process after the other, until no process is left: a cgroup of version 1 does not report that
// it is empty.
void JobManager::WatchContainer(Entry& entry) {
  const JobId id = entry.job.id;
  const auto ended = [self = self_, id] {
    if (!*self) return;
    const auto it = (*self)->entries_.find(id);
    if (it != (*self)->entries_.end() && !IsEnded(it->second.job)) (*self)->WatchContainer(it->second);
  };
  const bool is_new = !entry.root;
  while (const auto oldest = OldestIn(entry.job)) {
    base::Result<> watched;
    if (entry.root)
      watched = entry.root->Follow(*oldest, ended);
    else if (auto watch = RootWatch::Begin(loop_, *oldest, ended))
      entry.root = std::move(*watch);
    else
      watched = Fail(watch.error());
    if (!watched && watched.error().code == ErrorCode::kNotFound) continue;
    if (!watched) return WatchLater(entry, watched.error());
    if (!is_new) return;
    callbacks_.on_job_changed(entry.job, entry.runtime);
    if (entry.job.state == JobState::kStopping) StopAttached(id);
    return;
  }
  boost::asio::post(loop_, [self = self_, id] {
    if (*self && (*self)->entries_.contains(id))
      (*self)->ApplyEvent(id, RootEnded{false, (*self)->clock_.Wall()});
  });
}

void JobManager::OnRootEnded(JobId id, bool another_boot) {
  const auto it = entries_.find(id);
  if (it == entries_.end() || IsEnded(it->second.job)) return;
  // No process of an earlier boot is left, and no process has its key.
  if (another_boot) return ApplyEvent(id, RootEnded{true, clock_.Wall()});
  // The runtime removes a container when its processes have ended.
  if (it->second.job.container) return;
  keeper_work_.Add(it->second.job.owner->uid,
                   {[&table = table_, cgroup = it->second.job.cgroup, key = it->second.runtime.key] {
                      keeper::EndLeftovers(cgroup, key, table);
                    },
                    [this, id] {
                      if (entries_.contains(id)) ApplyEvent(id, RootEnded{false, clock_.Wall()});
                    }});
}

// The root may end when it sees the end of its processes. If the root lives on, the job is over all the same.
void JobManager::StopAttached(JobId id) {
  if (!entries_.at(id).root) return;
  const auto then = [self = self_, id](const SignalSent& sent) {
    if (!*self || !(*self)->entries_.contains(id)) return;
    if (sent.processes == 0) return (*self)->OnRootEnded(id, false);
    (*self)->EndAttachedAfter((*self)->entries_.at(id), base::Millis{0});
  };
  if (!Signal(id, SIGTERM, then)) OnRootEnded(id, false);
}

void JobManager::EndAttachedAfter(Entry& entry, base::Millis more) {
  if (!entry.root) return;
  const auto grace = entry.job.spec->grace.value_or(options_.launch.stop_grace);
  entry.root->After(grace + more, [self = self_, id = entry.job.id] {
    if (!*self || !(*self)->entries_.contains(id)) return;
    const auto then = [self, id](const SignalSent&) {
      if (*self) (*self)->OnRootEnded(id, false);
    };
    if (!(*self)->Signal(id, SIGKILL, then)) then({});
  });
}

}  // namespace gpuman::jobs
