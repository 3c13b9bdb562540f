// The requests that wait for something about a job: its end, its removal, its next run, or that it is
// started.
//
// Keeps and answers them; the job manager says when. Not thread-safe: lives on the event loop. The destructor
// drops what waits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/executor.h"
#include "base/result.h"
#include "base/weak_self.h"
#include "jobs/job.h"

namespace gpuman::jobs {

class JobWaiters {
 public:
  using Done = std::function<void(base::Result<Job>)>;

  // `to_loop` calls its argument on the loop.
  explicit JobWaiters(base::Executor to_loop) : to_loop_(std::move(to_loop)) {}
  JobWaiters(const JobWaiters&) = delete;
  JobWaiters& operator=(const JobWaiters&) = delete;

  // --- For the end of a job ---
  // The job has ended, and its stored record does not say so yet: nobody is told of the end before
  // EndIsKnown.
  void EndIsUnwritten(JobId id) { unwritten_ends_.insert(id); }
  // Calls `ended` when the job has ended or was released; at once if that has happened. Returns 0 if `ended`
  // was called already.
  std::uint64_t WaitForEnd(const Job& job, std::function<void(const Job&)> ended);
  void CancelWait(std::uint64_t handle) { ends_.erase(handle); }
  // The job has ended or was released; answers those who wait for its end.
  void EndIsKnown(const Job& job);

  // --- For its removal ---
  void WaitForRemoval(JobId id, Done done) { removals_[id].push_back(std::move(done)); }
  // The job is gone, as it was then; or it stays, and why.
  void AnswerRemovals(JobId id, const base::Result<Job>& answer);

  // --- For the run after the first `runs` ---
  void WaitForRun(JobId id, int runs, Done done) { runs_.push_back({id, runs, std::move(done)}); }
  // Answers those who wait, if that run has begun or no run will begin. `job`: as it is now; nullptr: gone.
  void AnswerRuns(JobId id, const Job* job);

  // --- For the time at which the job is not being started any more ---
  void WaitForStart(JobId id, std::function<void()> act) { starts_.emplace(id, std::move(act)); }
  bool IsStartAwaited(JobId id) const { return starts_.contains(id); }
  // The start is over: carries out what waited for it. Later, from the loop: the caller may be in the middle
  // of a change.
  void StartIsOver(JobId id);

 private:
  struct EndWaiter {
    JobId job;
    std::function<void(const Job&)> ended;
  };
  struct RunWaiter {
    JobId job;
    int runs = 0;
    Done done;
  };

  base::Executor to_loop_;
  std::map<std::uint64_t, EndWaiter> ends_;
  std::uint64_t last_handle_ = 0;
  std::set<JobId> unwritten_ends_;
  std::map<JobId, std::vector<Done>> removals_;
  std::vector<RunWaiter> runs_;
  std::multimap<JobId, std::function<void()>> starts_;
  base::WeakSelf<JobWaiters> self_{this};
};

}  // namespace gpuman::jobs
