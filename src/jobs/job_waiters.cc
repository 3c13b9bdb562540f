#include "jobs/job_waiters.h"

#include <utility>

#include "jobs/job_index.h"

namespace gpuman::jobs {

using base::Fail;
using base::Result;

std::uint64_t JobWaiters::WaitForEnd(const Job& job, std::function<void(const Job&)> ended) {
  if (IsEnded(job) && !unwritten_ends_.contains(job.id)) {
    ended(job);
    return 0;
  }
  ends_.emplace(++last_handle_, EndWaiter{job.id, std::move(ended)});
  return last_handle_;
}

void JobWaiters::EndIsKnown(const Job& job) {
  unwritten_ends_.erase(job.id);
  std::vector<std::function<void(const Job&)>> mine;
  for (auto it = ends_.begin(); it != ends_.end();) {
    if (it->second.job == job.id) {
      mine.push_back(std::move(it->second.ended));
      it = ends_.erase(it);
    } else {
      ++it;
    }
  }
  if (mine.empty()) return;
  const Job copy = job;  // a callback may change the job
  for (const auto& ended : mine) ended(copy);
}

void JobWaiters::AnswerRemovals(JobId id, const Result<Job>& answer) {
  const auto mine = removals_.extract(id);
  if (mine.empty()) return;
  for (const auto& done : mine.mapped()) done(answer);
}

void JobWaiters::AnswerRuns(JobId id, const Job* job) {
  const bool over = !job || IsEnded(*job) || IsWaiting(*job);
  std::vector<RunWaiter> mine;
  for (auto it = runs_.begin(); it != runs_.end();) {
    if (it->job == id && (over || (job->state == JobState::kRunning && job->runs > it->runs))) {
      mine.push_back(std::move(*it));
      it = runs_.erase(it);
    } else {
      ++it;
    }
  }
  if (mine.empty()) return;
  const Result<Job> answer = job ? Result<Job>(*job) : Result<Job>(Fail(NoSuchJob(id)));
  for (const auto& waiter : mine) waiter.done(answer);
}

void JobWaiters::StartIsOver(JobId id) {
  const auto [first, last] = starts_.equal_range(id);
  for (auto it = first; it != last; ++it)
    to_loop_(self_.Bind([act = std::move(it->second)](JobWaiters&) { act(); }));
  starts_.erase(first, last);
}

}  // namespace gpuman::jobs
