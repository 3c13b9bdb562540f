// Changes of jobs' requests that are on their way to the disk. A change has its effect at once; if the disk
// refuses it, it is undone, and only it: later changes stay, and so do the job's state and progress.
//
// Pure. Not thread-safe.
#pragma once

#include <list>
#include <map>

#include "jobs/job.h"

namespace gpuman::jobs {

class RequestUndoLog {
 public:
  struct Change {
    Job before;
    Job changed;
  };
  using Handle = std::list<Change>::iterator;

  // The job was changed from `before` to `changed`. Call Stored or Refused with the handle, once.
  Handle Begin(Job before, Job changed);
  void Stored(JobId id, Handle change);
  // Undoes the change in `now`, the job as it is now; nullptr: the job is gone.
  void Refused(JobId id, Handle change, Job* now);

 private:
  std::map<JobId, std::list<Change>> changes_;  // the oldest first; only of jobs that have some
};

}  // namespace gpuman::jobs
