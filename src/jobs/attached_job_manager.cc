#include "jobs/attached_job_manager.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <tuple>
#include <utility>

#include "base/boot.h"
#include "keeper/process_tree.h"

namespace gpuman::jobs {
namespace {

constexpr std::chrono::milliseconds kRewatchDelay{500};

}  // namespace

using base::ErrorCode;
using base::Fail;
using base::Result;

AttachedJobManager::AttachedJobManager(boost::asio::io_context& loop, base::FairTaskExecutor& workers,
                                       const base::ProcessTable& table, const JobIndex& jobs,
                                       const JobManagerOptions& options, Callbacks callbacks)
    : loop_(loop),
      workers_(workers),
      table_(table),
      jobs_(jobs),
      options_(options),
      callbacks_(std::move(callbacks)) {}

std::string AttachedJobManager::KeyOf(const Job& job) {
  const auto key = job.environment->find(keeper::kKeyVariable);
  return key == job.environment->end() ? std::string() : key->second;
}

std::optional<base::ProcessId> AttachedJobManager::OldestIn(const Job& job) const {
  const auto members = keeper::Members({base::ProcessId{}, job.cgroup}, table_);
  const auto oldest = std::min_element(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return std::tie(a.id.start_time, a.id.pid) < std::tie(b.id.start_time, b.id.pid);
  });
  return oldest == members.end() ? std::nullopt : std::optional(oldest->id);
}

const Job* AttachedJobManager::Running(JobId id) const {
  const Job* const job = jobs_.Find(id);
  return job && !IsEnded(*job) ? job : nullptr;
}

RootWatch* AttachedJobManager::WatchOf(JobId id) const {
  const auto it = watches_.find(id);
  return it == watches_.end() ? nullptr : it->second.get();
}

void AttachedJobManager::Watch(JobId id) {
  const Job& job = jobs_.At(id);
  if (job.boot_id != base::BootId()) return callbacks_.on_ended(id, true);
  if (job.container) return WatchContainer(id);
  const auto ended = self_.Bind([id](AttachedJobManager& me) { me.OnRootEnded(id); });
  auto watch = RootWatch::Begin(loop_, *job.keeper, ended);
  if (!watch && watch.error().code == ErrorCode::kNotFound) return boost::asio::post(loop_, ended);
  if (!watch) return WatchLater(id, watch.error());
  watches_[id] = std::move(*watch);
  OnWatched(job);
}

void AttachedJobManager::OnWatched(const Job& job) {
  callbacks_.on_watched(job.id);
  // An end was ordered, and the daemon was killed before it carried out the end.
  if (job.state == JobState::kStopping) End(job.id);
}

// The watch failed, for example because no descriptor was left; the job has not ended.
void AttachedJobManager::WatchLater(JobId id, const base::Error& error) {
  callbacks_.on_error(id, "it cannot be watched now: " + error.message);
  callbacks_.on_watched(id);
  const auto timer = std::make_shared<boost::asio::steady_timer>(loop_, kRewatchDelay);  // kept by its wait
  timer->async_wait(self_.Bind([id, timer](AttachedJobManager& me, boost::system::error_code stopped) {
    if (!stopped && me.Running(id)) me.Watch(id);
  }));
}

// Watches one process after the other, until no process is left: a cgroup of version 1 does not report that
// it is empty.
void AttachedJobManager::WatchContainer(JobId id) {
  const Job& job = jobs_.At(id);
  const auto ended = self_.Bind([id](AttachedJobManager& me) {
    if (me.Running(id)) me.WatchContainer(id);
  });
  RootWatch* const before = WatchOf(id);
  while (const auto oldest = OldestIn(job)) {
    Result<> watched;
    if (before)
      watched = before->Follow(*oldest, ended);
    else if (auto watch = RootWatch::Begin(loop_, *oldest, ended))
      watches_[id] = std::move(*watch);
    else
      watched = Fail(watch.error());
    if (!watched && watched.error().code == ErrorCode::kNotFound) continue;
    if (!watched) return WatchLater(id, watched.error());
    if (!before) OnWatched(job);
    return;
  }
  boost::asio::post(loop_, self_.Bind([id](AttachedJobManager& me) {
    if (me.jobs_.Find(id)) me.callbacks_.on_ended(id, false);
  }));
}

void AttachedJobManager::OnRootEnded(JobId id) {
  const Job* const job = Running(id);
  // The runtime removes a container when its processes have ended.
  if (!job || job->container) return;
  workers_.Add(job->owner->uid, {[&table = table_, cgroup = job->cgroup, key = KeyOf(*job)] {
                                   keeper::EndLeftovers(cgroup, key, table);
                                 },
                                 self_.Bind([id](AttachedJobManager& me) {
                                   if (me.jobs_.Find(id)) me.callbacks_.on_ended(id, false);
                                 })});
}

// The root may end when it sees the end of its processes. If the root lives on, the job is over all the same.
void AttachedJobManager::End(JobId id) {
  if (!WatchOf(id)) return;
  const auto then = self_.Bind([id](AttachedJobManager& me, const SignalOrderResult& sent) {
    if (!me.jobs_.Find(id)) return;
    if (sent.processes == 0) return me.OnRootEnded(id);
    me.KillAfterGrace(id, base::Millis{0});
  });
  if (!callbacks_.signal(id, SIGTERM, then)) OnRootEnded(id);
}

void AttachedJobManager::KillAfterGrace(JobId id, base::Millis more) {
  RootWatch* const watch = WatchOf(id);
  if (!watch) return;
  const auto grace = jobs_.At(id).spec->grace.value_or(options_.launch.stop_grace);
  watch->After(grace + more, self_.Bind([id](AttachedJobManager& me) { me.Kill(id); }));
}

void AttachedJobManager::Kill(JobId id) {
  if (!jobs_.Find(id)) return;
  const auto then =
      self_.Bind([id](AttachedJobManager& me, const SignalOrderResult&) { me.OnRootEnded(id); });
  if (!callbacks_.signal(id, SIGKILL, then)) OnRootEnded(id);
}

}  // namespace gpuman::jobs
