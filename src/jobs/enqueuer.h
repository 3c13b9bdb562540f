// Takes new jobs into the queue: gives them their ids, stores them, and shows them once they are on the disk.
//
// All jobs of one call come, or none. Few jobs share a commit with everything else that waits for one; many
// jobs are numbered and shown in slices, in turns between users, and the store writes them in several commits
// (arrival.h). Not thread-safe: lives on the event loop. The destructor drops what is on its way; the store
// still writes it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/executor.h"
#include "base/result.h"
#include "base/sliced_work.h"
#include "base/weak_self.h"
#include "jobs/job_index.h"
#include "jobs/shared_parts.h"
#include "jobs/store_worker.h"

namespace gpuman::jobs {

class Enqueuer {
 public:
  using Done = std::function<void(base::Result<std::vector<JobId>>)>;

  // `to_loop` calls its argument on the loop. `on_added`: a job is in the index now. All must outlive this
  // object.
  Enqueuer(base::Executor to_loop, StoreWorker& store, const base::Clock& clock, JobIndex& jobs,
           SharedParts& parts, std::function<void(const Job&)> on_added);
  Enqueuer(const Enqueuer&) = delete;
  Enqueuer& operator=(const Enqueuer&) = delete;

  // `jobs`: of one user, in the order of their ids; an id of 0 gets the next one. `done` gets the ids, or why
  // the disk refused the jobs.
  void Enqueue(std::vector<Job> jobs, Done done);

 private:
  // Many jobs on their way.
  struct Arrival {
    std::shared_ptr<std::vector<Job>> jobs;  // shared with the store's thread, which writes them
    base::WallTime at{};
    std::size_t next = 0;
    std::vector<JobId> ids{};
    Done done;
  };

  void EnqueueMany(std::vector<Job> jobs, Done done);
  void StoreArrival(const std::shared_ptr<Arrival>& arrival);
  void Number(Job& job, base::WallTime at);
  void TakeIn(Job job, std::vector<JobId>& ids);

  StoreWorker& store_;
  const base::Clock& clock_;
  JobIndex& jobs_;
  SharedParts& parts_;
  std::function<void(const Job&)> on_added_;
  base::SlicedWork slices_;
  base::WeakSelf<Enqueuer> self_{this};
};

}  // namespace gpuman::jobs
