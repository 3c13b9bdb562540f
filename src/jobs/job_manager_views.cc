// Finds jobs, and waits for them.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include "jobs/job_manager.h"

namespace gpuman::jobs {

using base::Fail;
using base::Result;

const Job* JobManager::Find(JobId id) const {
  auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second.job;
}

// In tags_ a user's jobs of one tag are together, the newest last. Jobs of other tags with the same hash are
// skipped.
std::optional<JobId> JobManager::NewestOf(const std::string& tag, std::optional<uid_t> user) const {
  const std::size_t hash = std::hash<std::string>()(tag);
  std::optional<JobId> best;
  bool best_ended = true;
  auto uid = user.value_or(std::numeric_limits<uid_t>::max());
  for (;;) {
    auto at = tags_.upper_bound({hash, uid, JobId{INT64_MAX}});
    std::optional<JobId> newest;  // of this user's jobs
    while (at != tags_.begin()) {
      const auto& [its_hash, its_user, id] = *--at;
      if (its_hash != hash || (user && its_user != *user)) break;
      if (newest && its_user != uid) break;
      uid = its_user;
      const Job& job = entries_.at(id).job;
      if (job.tag != tag) continue;
      if (!newest || !IsEnded(job)) newest = id;
      if (!IsEnded(job)) break;
    }
    if (!newest) return best;
    const bool ended = IsEnded(entries_.at(*newest).job);
    if (!best || (best_ended && !ended) || (best_ended == ended && *newest > *best)) {
      best = newest;
      best_ended = ended;
    }
    if (user || uid == 0) return best;
    --uid;
  }
}

const Job* JobManager::HolderOf(const std::string& tag, JobId but) const {
  const std::size_t hash = std::hash<std::string>()(tag);
  for (auto at = tags_.lower_bound({hash, 0, JobId{INT64_MIN}});
       at != tags_.end() && std::get<0>(*at) == hash; ++at) {
    const JobId id = std::get<2>(*at);
    const Job& job = entries_.at(id).job;
    if (id != but && job.tag == tag && !IsEnded(job)) return &job;
  }
  return nullptr;
}

Result<JobId> JobManager::Resolve(const std::string& ref) const {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(ref.data(), ref.data() + ref.size(), number);
  // A tag is never a number.
  if (error == std::errc() && end == ref.data() + ref.size()) {
    if (entries_.contains({number})) return JobId{number};
    return Fail(NoSuchJob(ref));
  }
  if (const auto id = NewestOf(ref, std::nullopt)) return *id;
  return Fail(NoSuchJob(ref));
}

Result<JobId> JobManager::Resolve(const std::string& ref, uid_t user) const {
  if (const auto id = NewestOf(ref, user)) return *id;
  return Resolve(ref);
}

std::vector<JobId> JobManager::Named(const std::string& tag, std::optional<uid_t> user, Which which) const {
  constexpr int kMaxTried = 1000;  // the tasks of a large array lie between two names
  const std::size_t hash = std::hash<std::string>()(tag);
  std::vector<JobId> found;
  auto at = tags_.upper_bound({hash, user.value_or(std::numeric_limits<uid_t>::max()), JobId{INT64_MAX}});
  for (int tried = 0; tried < kMaxTried && at != tags_.begin() && found.size() < kMaxNamed; ++tried) {
    const auto& [its_hash, its_user, id] = *--at;
    if (its_hash != hash || (user && its_user != *user)) break;
    const Job& job = entries_.at(id).job;
    if (job.tag != tag || (which == Which::kOpen && IsEnded(job))) continue;
    found.push_back(job.array.array.value != 0 ? job.array.array : id);
    // Skips the other tasks, whose ids come directly below.
    if (job.array.array.value != 0) at = tags_.lower_bound({hash, its_user, job.array.array});
  }
  return found;
}

std::string JobManager::NameOf(const Job& job) const {
  return Named(job.tag, std::nullopt, Which::kAll).size() < 2 ? job.tag : std::to_string(job.id.value);
}

// Tasks have consecutive ids, with gaps where tasks were forgotten, mostly the first ones.
std::vector<JobId> JobManager::TasksOf(JobId head) const {
  std::vector<JobId> ids;
  for (auto it = entries_.lower_bound(head); it != entries_.end(); ++it) {
    const bool belongs = it->second.job.array.array == head;
    if (!belongs && it->first != head) break;
    ids.push_back(it->first);
    if (!belongs) break;
  }
  return ids;
}

// A binary search: the ids of tasks ascend with their numbers. Each step looks at the first remaining task at
// an id or behind it.
std::optional<JobId> JobManager::TaskOf(JobId array, std::int64_t task) const {
  // The id of task n is at most n behind the array's id: ids were given without gaps, numbers may have some.
  JobId low = array, high = {array.value + std::max<std::int64_t>(task, 0) + 1};
  while (low < high) {
    const JobId middle{low.value + (high.value - low.value) / 2};
    const auto it = entries_.lower_bound(middle);
    const bool belongs = it != entries_.end() && it->second.job.array.array == array;
    if (belongs && it->second.job.array.task == task) return it->first;
    if (belongs && it->second.job.array.task < task)
      low = {it->first.value + 1};
    else
      high = middle;
  }
  return std::nullopt;
}

std::vector<const Job*> JobManager::All() const {
  std::vector<const Job*> jobs;
  for (const auto& [id, entry] : entries_) jobs.push_back(&entry.job);
  return jobs;
}

std::vector<const Job*> JobManager::Active() const {
  std::vector<const Job*> jobs;
  for (const JobId id : active_) jobs.push_back(&entries_.at(id).job);
  return jobs;
}

const Job* JobManager::After(JobId id) const {
  const auto it = entries_.upper_bound(id);
  return it == entries_.end() ? nullptr : &it->second.job;
}

const Job* JobManager::Before(JobId id) const {
  const auto it = entries_.lower_bound(id);
  return it == entries_.begin() ? nullptr : &std::prev(it)->second.job;
}

std::vector<JobId> JobManager::Ended() const { return {ended_.begin(), ended_.end()}; }

std::filesystem::path JobManager::LogPathOf(JobId id) const { return LogPath(options_.launch.log_dir, id); }

std::uint64_t JobManager::WaitForEnd(JobId id, std::function<void(const Job&)> ended) {
  const Job* job = Find(id);
  if (!job) return 0;
  if (IsEnded(*job) && !entries_.at(id).end_unwritten) {
    ended(*job);
    return 0;
  }
  waiters_.emplace(++last_waiter_, Waiter{id, std::move(ended)});
  return last_waiter_;
}

void JobManager::CancelWait(std::uint64_t handle) { waiters_.erase(handle); }

void JobManager::AnswerWaiters(const Job& job) {
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

// Answers the requests that wait for a new run of the job, if that run has begun or no run will begin.
void JobManager::AnswerReruns(JobId id) {
  const Job* const job = Find(id);
  const bool over = !job || IsEnded(*job) || IsWaiting(*job);
  std::vector<Rerun> mine;
  for (auto it = reruns_.begin(); it != reruns_.end();) {
    if (it->job == id && (over || (job->state == JobState::kRunning && job->runs > it->runs))) {
      mine.push_back(std::move(*it));
      it = reruns_.erase(it);
    } else {
      ++it;
    }
  }
  if (mine.empty()) return;
  const Result<Job> answer = job ? Result<Job>(*job) : Result<Job>(Fail(NoSuchJob(std::to_string(id.value))));
  for (const auto& rerun : mine) rerun.done(answer);
}

bool JobManager::IsBeingStarted(JobId id) const {
  const auto it = entries_.find(id);
  if (it == entries_.end()) return false;
  const Job& job = it->second.job;
  if (job.attached || IsEnded(job) || IsWaiting(job)) return false;
  if (!it->second.link || !it->second.link->connected()) return true;
  // After a failed first attempt the job waits for the next one, which may take long.
  return job.state == JobState::kStarting && !job.started_at && !job.verdict;
}

void JobManager::OnceStarted(JobId id, std::function<void()> act) {
  later_.push_back({id, std::move(act)});
  CarryOutLater(id);
}

// Runs later, from the loop: the caller may be in the middle of a change.
void JobManager::CarryOutLater(JobId id) {
  if (later_.empty() || IsBeingStarted(id)) return;
  const auto of_others = [id](const Later& later) { return later.job != id; };
  const auto mine = std::stable_partition(later_.begin(), later_.end(), of_others);
  for (auto it = mine; it != later_.end(); ++it)
    boost::asio::post(loop_, [self = self_, act = std::move(it->act)] {
      if (*self) act();
    });
  later_.erase(mine, later_.end());
}

}  // namespace gpuman::jobs
