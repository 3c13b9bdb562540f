// Jobs found, waited for.
#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "jobs/supervisor.h"

namespace gpuman::jobs {

using base::ErrorCode;
using base::Fail;
using base::Result;

const Job* Supervisor::Find(JobId id) const {
  auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second.job;
}

Result<JobId> Supervisor::Resolve(const std::string& ref) const {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(ref.data(), ref.data() + ref.size(), number);
  // No tag is a number.
  if (error == std::errc() && end == ref.data() + ref.size()) {
    if (entries_.contains({number})) return JobId{number};
    return Fail(NoSuchJob(ref));
  }
  const Entry* best = nullptr;
  for (const auto& [id, entry] : entries_)
    if (entry.job.tag == ref && (!best || !IsEnded(entry.job) || IsEnded(best->job))) best = &entry;
  if (best) return best->job.id;
  return Fail(NoSuchJob(ref));
}

std::vector<const Job*> Supervisor::Named(const std::string& tag) const {
  std::vector<const Job*> named;
  for (const auto& [id, entry] : entries_)
    if (entry.job.tag == tag) named.push_back(&entry.job);
  return named;
}

// Tasks have consecutive ids, with holes where some were forgotten, the first ones mostly.
std::vector<JobId> Supervisor::TasksOf(JobId head) const {
  std::vector<JobId> ids;
  for (auto it = entries_.lower_bound(head); it != entries_.end(); ++it) {
    const bool belongs = it->second.job.array.array == head;
    if (!belongs && it->first != head) break;
    ids.push_back(it->first);
    if (!belongs) break;
  }
  return ids;
}

std::vector<const Job*> Supervisor::All() const {
  std::vector<const Job*> jobs;
  for (const auto& [id, entry] : entries_) jobs.push_back(&entry.job);
  return jobs;
}

std::vector<const Job*> Supervisor::Active() const {
  std::vector<const Job*> jobs;
  for (const JobId id : active_) jobs.push_back(&entries_.at(id).job);
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

// Those that wait for a new run of the job, where it has begun, or none will begin.
void Supervisor::AnswerReruns(JobId id) {
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

}  // namespace gpuman::jobs
